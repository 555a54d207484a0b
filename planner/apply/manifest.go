package apply

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"salectl/internal/files"
	"salectl/planner"
)

// A manifest records the digest of an export beside it, so that a recipient of both can verify
// the export with sha256sum -c.

// ManifestPath returns the path of an export's manifest.
func ManifestPath(export string) string { return files.ManifestPath(export) }

// CheckManifest returns an error if the manifest's path has a file that is no manifest of the
// export.
func CheckManifest(export string) error {
	_, err := ReadManifest(export)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadManifest returns the SHA-256 in the manifest of an export. If there is no manifest, the
// error is fs.ErrNotExist; if the file is no manifest of the export, a Refusal.
func ReadManifest(export string) ([]byte, error) {
	says, err := files.ReadManifest(export)
	if none, is := errors.AsType[*files.NoManifestError](err); is {
		return nil, &planner.Refusal{
			Reason: fmt.Sprintf("%s is there already, and is no manifest of %s", ManifestPath(export), none.Path),
			Remedy: "Move it away, or name another file for the export.",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the manifest cannot be read: %w", err)
	}
	return says, nil
}

// manifestName returns the text after the digest. sha256sum escapes a name with a line break
// or a backslash only in a line that begins with a backslash; here that is not needed.
func manifestName(export string) string { return "  " + filepath.Base(export) + "\n" }

// WriteManifest writes the manifest of an export and replaces an older one.
func WriteManifest(export string, digest []byte) error {
	return exporter{(*os.File).Sync}.manifest(export, digest)
}

func (x exporter) manifest(export string, digest []byte) error {
	if err := CheckManifest(export); err != nil {
		return err
	}
	path := ManifestPath(export)
	temp, err := files.CreateTemp(path)
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	defer temp.Close()
	defer os.Remove(temp.Name()) // fails harmlessly after the rename
	_, err = io.Copy(temp, strings.NewReader(hex.EncodeToString(digest)+manifestName(export)))
	if err = errors.Join(err, x.sync(temp)); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if err := files.MoveTemp(temp, func() error { return os.Rename(temp.Name(), path) }); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return x.syncFolder(path)
}

// syncFolder makes the name durable.
func (e exporter) syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	return errors.Join(e.sync(folder), folder.Close())
}
