package cli

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"salectl/internal/files"
)

// saveFile writes a file atomically: under another name in the same folder, synced, then moved
// into place. It replaces an existing file if replace is set; otherwise a file with the same
// content counts as written, and any other is an error. It returns the SHA-256.
func saveFile(path string, mode fs.FileMode, replace bool, write func(io.Writer) error) (digest []byte, err error) {
	temp, err := files.CreateTemp(path)
	if err != nil {
		return nil, err
	}
	defer temp.Close()
	// After the move this removes nothing.
	defer os.Remove(temp.Name())

	content := sha256.New()
	if err := write(io.MultiWriter(temp, content)); err != nil {
		return nil, err
	}
	if err := errors.Join(temp.Chmod(mode), temp.Sync()); err != nil {
		return nil, err
	}
	digest = content.Sum(nil)
	err = files.MoveTemp(temp, func() error {
		if replace {
			return os.Rename(temp.Name(), path)
		}
		return place(temp.Name(), path, digest)
	})
	if err != nil {
		return nil, err
	}
	return digest, syncDir(filepath.Dir(path))
}

// place gives the new file its name unless that is taken. Unlike a rename, a link never
// replaces a file that another process has created meanwhile.
func place(temp, path string, digest []byte) error {
	err := os.Link(temp, path)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	there := sha256.New()
	if _, err := io.Copy(there, f); err != nil {
		return err
	}
	if !bytes.Equal(there.Sum(nil), digest) {
		return fmt.Errorf("%w: %s has other content; move it away, or name another file with --out", errExists, path)
	}
	return nil
}

// errExists reports a file that would have to be overwritten.
var errExists = errors.New("the file is there already")

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
