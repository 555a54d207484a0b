package files

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// ManifestPath returns the path of a file's manifest: a line in the format of sha256sum, with
// the SHA-256 of the file.
func ManifestPath(path string) string { return path + ".sha256" }

// WriteManifest writes the manifest of a file with a SHA-256, and replaces an older one. A recipient
// of both can verify the file with sha256sum -c.
func (s Saving) WriteManifest(path string, digest []byte) error {
	if err := CheckManifest(path); err != nil {
		return err
	}
	_, err := Saving{Replace: true, Sync: s.Sync}.Save(ManifestPath(path), func(to io.Writer) error {
		// sha256sum escapes a name with a line break or a backslash only in a line that begins
		// with a backslash; here that is not needed.
		_, err := fmt.Fprintf(to, "%x  %s\n", digest, filepath.Base(path))
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

// CheckManifest returns an error if the manifest of a file cannot be read, or if the file at its path
// is no manifest of the file.
func CheckManifest(path string) error {
	_, err := ReadManifest(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadManifest returns the SHA-256 in the manifest of a file. If there is no manifest, the error is
// fs.ErrNotExist; if the file at its path is no manifest of the file, an ExistsError.
func ReadManifest(path string) ([]byte, error) {
	const most = 8 << 10 // exceeds any digest and path
	text, err := Read(ManifestPath(path), most)
	if err != nil {
		return nil, fmt.Errorf("the manifest cannot be read: %w", err)
	}
	line, rest, ended := strings.Cut(string(text), "\n")
	sum, name, _ := strings.Cut(line, " ")
	digest, err := hex.DecodeString(sum)
	if err != nil || len(digest) != 32 || !ended || rest != "" || len(name) < 2 || !strings.ContainsAny(name[:1], " *") || filepath.Base(name[1:]) != filepath.Base(path) {
		return nil, &ExistsError{ManifestPath(path), "is not a manifest of " + path}
	}
	return digest, nil
}
