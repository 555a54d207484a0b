package planner

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
)

// A manifest says beside an export which bytes it has, so that whoever is handed both can
// tell whether the export is the one that was written: sha256sum -c reads it.

// ManifestPath is the manifest of an export's file.
func ManifestPath(export string) string { return files.ManifestPath(export) }

// CheckManifest refuses an export at whose manifest's path a file stands that is no
// manifest of it.
func CheckManifest(export string) error {
	_, err := ReadManifest(export)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ReadManifest returns the SHA-256 that the manifest of an export says. No manifest is
// fs.ErrNotExist; a file that is no manifest of it is a Refusal.
func ReadManifest(export string) ([]byte, error) {
	says, err := files.ReadManifest(export)
	if none, is := errors.AsType[*files.NoManifestError](err); is {
		return nil, &Refusal{
			Reason: fmt.Sprintf("%s is there already, and is no manifest of %s", ManifestPath(export), none.Path),
			Remedy: "Move it away, or name another file for the export.",
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the manifest cannot be read: %w", err)
	}
	return says, nil
}

// manifestName is what stands behind the digest. A name with a line break or a backslash is
// written as sha256sum does; then its line begins with a backslash, for which there is no need.
func manifestName(export string) string { return "  " + filepath.Base(export) + "\n" }

// WriteManifest writes the manifest of an export, in place of an older one.
func WriteManifest(export string, digest []byte) error {
	return exporter{(*os.File).Sync}.manifest(export, digest)
}

func (x exporter) manifest(export string, digest []byte) error {
	if err := CheckManifest(export); err != nil {
		return err
	}
	path := ManifestPath(export)
	temp, err := CreateTemp(path)
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	defer temp.Close()
	defer os.Remove(temp.Name()) // after the rename there is nothing to remove
	_, err = io.Copy(temp, strings.NewReader(hex.EncodeToString(digest)+manifestName(export)))
	if err = errors.Join(err, x.sync(temp)); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if err := MoveTemp(temp, func() error { return os.Rename(temp.Name(), path) }); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return x.syncFolder(path)
}
