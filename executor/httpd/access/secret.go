package access

import (
	"errors"
	"fmt"

	"salectl/internal/files"
)

// readSecret reads a file of up to most bytes that is not readable by everyone on the machine.
// System errors begin with what; others wrap bad.
func readSecret(what, path string, most int64, bad error) ([]byte, error) {
	content, err := files.ReadSecret(path, most)
	if exposed, is := errors.AsType[*files.ExposedError](err); is {
		return nil, fmt.Errorf("%w: %w", bad, exposed)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", what, err)
	case int64(len(content)) > most:
		return nil, fmt.Errorf("%w: %s has more than %d bytes", bad, path, most)
	}
	return content, nil
}
