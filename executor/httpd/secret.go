package httpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"salectl/backends/clock"
	"salectl/internal/files"
)

// readSecret reads a file of at most so many bytes that not everyone on the machine may
// read. what it is begins the errors that come from the system; the others wrap bad.
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

// Reloaded is what is read from files that may change while a server serves.
type Reloaded interface {
	// Reload reads the files again. If they are not fit for use, it returns why, and what was
	// read before remains in force.
	Reload() (changed bool, err error)
	String() string // names the files
}

// reloadEvery is how often files are read again. They are small, and reading is surer than
// asking for their times, which may be the same after a change.
const reloadEvery = time.Second

// Watch reads files again every second until ctx ends, and logs what comes of it, and what
// is wrong with certificates by the time that now tells.
func Watch(ctx context.Context, log *slog.Logger, now clock.Clock, all ...Reloaded) {
	said, warned := make([]string, len(all)), ""
	for {
		for i, r := range all {
			said[i] = reloadFile(log, r, said[i])
			if c, ok := r.(*Certificates); ok {
				warned = warn(log, c, now().Wall, warned)
			}
		}
		select {
		case <-time.After(reloadEvery):
		case <-ctx.Done():
			return
		}
	}
}

// warn logs a warning once, said being the one of before, and returns it.
func warn(log *slog.Logger, c *Certificates, now time.Time, said string) string {
	says := c.Warning(now)
	if says != "" && says != said {
		log.Warn(says, "file", c.files.Cert, "remedy", "replace the certificate and its key; they are read again without a restart")
	}
	return says
}

// reloadFile reads one again, and logs a fault once, said being the one of before, and returns it.
func reloadFile(log *slog.Logger, r Reloaded, said string) string {
	changed, err := r.Reload()
	switch {
	case err != nil && err.Error() != said:
		log.Error("a file is not fit for use as it is now; what was read before remains in force", "file", r.String(), "why", err)
		return err.Error()
	case err != nil:
		return said
	case changed:
		log.Info("a file has changed and was read again", "file", r.String())
	}
	return ""
}
