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

	"salectl/planner"
)

// saveFile writes a file so that it is there in full or not at all, whatever
// happens: beside it under another name, synced, then moved into place. An old
// file of that name is replaced if replace says so; otherwise one with the same
// content counts as written, and any other is refused. It returns the SHA-256.
func saveFile(path string, mode fs.FileMode, replace bool, write func(io.Writer) error) (digest []byte, err error) {
	temp, err := planner.CreateTemp(path)
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
	err = planner.MoveTemp(temp, func() error {
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

// place gives the new file its name unless that is taken. A link, unlike a
// rename, never replaces what another process has put there meanwhile.
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

// errExists says that a file would have to be overwritten.
var errExists = errors.New("the file is there already")

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
