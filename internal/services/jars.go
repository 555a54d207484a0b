package services

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// pom.xml names the version of HBase.
//
//go:embed pom.xml
var pom []byte

// jarFolder is where the jars of HBase are kept, for all checkouts of a user.
// The version stands in its name: another version is another folder.
func jarFolder() string { return filepath.Join(CacheDir(), "hbase-2.6.4") }

func haveJars() bool {
	_, err := os.Stat(filepath.Join(jarFolder(), "complete"))
	return err == nil
}

// fetchJars fills jarFolder unless it is full. Of several processes one does
// it, and the others wait for it. The folder appears at once with all that is
// in it, so one that dies half-way leaves nothing that appears complete.
func fetchJars(ctx context.Context, progress io.Writer) error {
	if haveJars() {
		return nil
	}
	mvn, err := maven.path()
	if err != nil {
		return fmt.Errorf("fetch the jars of HBase: %w", err)
	}
	if err := os.MkdirAll(CacheDir(), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(jarFolder()+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := lockFile(lock, lockAndWait); err != nil {
		return err
	}
	if haveJars() {
		return nil
	}
	fmt.Fprintf(progress, "fetching HBase from Maven Central into %s (117 MB) ...\n", jarFolder())
	partial, err := os.MkdirTemp(CacheDir(), "hbase-partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	if err := copyDependencies(ctx, mvn, partial); err != nil {
		return err
	}
	if err := os.RemoveAll(jarFolder()); err != nil {
		return err
	}
	return os.Rename(partial, jarFolder())
}

// copyDependencies lets Maven put all jars into dir/lib, and marks dir complete.
func copyDependencies(ctx context.Context, mvn, dir string) error {
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, pom, 0o644); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", file, "dependency:copy-dependencies",
		"-DoutputDirectory="+filepath.Join(dir, "lib"), "-DincludeScope=runtime").CombinedOutput()
	if err != nil {
		return fmt.Errorf("the jars of HBase are %w: mvn could not fetch them from Maven Central (%w; behind a proxy, name it or a mirror in ~/.m2/settings.xml):\n%s",
			ErrMissing, err, lastLines(string(output)))
	}
	if err := os.Chmod(dir, 0o755); err != nil { // a temporary folder is its maker's alone
		return err
	}
	return os.WriteFile(filepath.Join(dir, "complete"), nil, 0o644)
}
