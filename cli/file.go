package cli

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"salectl/internal/files"
)

// saveFile writes a file as files.Save does. It replaces an existing file if replace is set;
// otherwise a file with the same content counts as written, and any other is an error. It returns
// the SHA-256.
func saveFile(path string, mode fs.FileMode, replace bool, write func(io.Writer) error) (digest []byte, err error) {
	content := sha256.New()
	err = files.Save(path, (*os.File).Sync, func(temp *os.File) error {
		if err := write(io.MultiWriter(temp, content)); err != nil {
			return err
		}
		return temp.Chmod(mode)
	}, func(temp string) error {
		if replace {
			return os.Rename(temp, path)
		}
		return place(temp, path, content.Sum(nil))
	})
	return content.Sum(nil), err
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
var errExists = errors.New("the file exists")
