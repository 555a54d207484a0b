package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// folder returns dir as an absolute path, so that a change of the working directory has no
// effect. It returns an error if dir cannot become a folder.
func folder(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("embedded folder %s: %w", dir, err)
	}
	switch info, err := os.Stat(abs); {
	case err == nil && !info.IsDir():
		return "", fmt.Errorf("embedded folder %s is a file; name a folder under embedded.dir", abs)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", explain(abs, err)
	}
	return abs, nil
}

// makeFolder creates dir and its missing parents, and syncs each name to the disk: a file is
// only as durable as its path.
func makeFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncFolder(parent)
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
