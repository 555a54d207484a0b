package services

import (
	"os"
	"path/filepath"
)

// folder returns dir as an absolute path, made if need be. For "" it makes a
// temporary one, and returns it a second time as what is to be removed.
func folder(dir, name string) (abs, temporary string, err error) {
	if err := supported(); err != nil {
		return "", "", err
	}
	if dir == "" {
		dir, err = os.MkdirTemp("", "salectl-"+name+"-")
		return dir, dir, err
	}
	if abs, err = filepath.Abs(dir); err != nil {
		return "", "", err
	}
	return abs, "", os.MkdirAll(abs, 0o755)
}
