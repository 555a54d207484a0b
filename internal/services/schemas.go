package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// schemaFolder has check-jsonschema, for all checkouts of a user. The version stands in its
// name: another version is another folder.
func schemaFolder() string { return filepath.Join(CacheDir(), "check-jsonschema-0.39.0") }

const schemaPackage = "check-jsonschema==0.39.0"

// venv is what Debian leaves out of Python.
var venv = tool{"the module ensurepip of Python", []string{"python3-venv"}, "python", func() (string, error) {
	path, err := python.path()
	if err == nil {
		err = exec.Command(path, "-c", "import ensurepip").Run()
	}
	return path, err
}}

// CheckJSONSchema returns the path of check-jsonschema, which has the published schemas of the
// files of GitHub Actions and GitLab CI.
func CheckJSONSchema() (string, error) {
	if err := supported(); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(schemaFolder(), "complete")); err != nil {
		return "", fmt.Errorf("check-jsonschema is %w in %s: run 'go run ./internal/services/run install', which fetches it from PyPI", ErrMissing, schemaFolder())
	}
	return filepath.Join(schemaFolder(), "bin", "check-jsonschema"), nil
}

// fetchSchemas fills schemaFolder unless it is full. Of several processes one does it, and the
// others wait for it.
func fetchSchemas(ctx context.Context, apt *aptGet, progress io.Writer) error {
	_, missing := CheckJSONSchema()
	if missing == nil {
		return nil
	}
	if err := apt.provide(ctx, venv); err != nil {
		return errors.Join(missing, err)
	}
	path, err := venv.path()
	if err != nil {
		return errors.Join(missing, err)
	}
	if err := os.MkdirAll(CacheDir(), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(schemaFolder()+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := lockFile(lock, lockAndWait); err != nil {
		return err
	}
	if _, missing = CheckJSONSchema(); missing == nil {
		return nil
	}
	fmt.Fprintf(progress, "fetching %s from PyPI into %s ...\n", schemaPackage, schemaFolder())
	for _, args := range [][]string{
		{path, "-m", "venv", "--clear", schemaFolder()},
		{filepath.Join(schemaFolder(), "bin", "pip"), "install", "--quiet", schemaPackage},
	} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s: %w:\n%s", missing, filepath.Base(args[0]), err, lastLines(string(out)))
		}
	}
	return os.WriteFile(filepath.Join(schemaFolder(), "complete"), nil, 0o644)
}
