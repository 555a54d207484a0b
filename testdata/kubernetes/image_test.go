package kubernetes

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var binaries string // a folder that outlives single tests

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if binaries, err = os.MkdirTemp("", "kubernetes"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(binaries)
		return m.Run()
	}())
}

// salectl is a static program, and beside it a bill of materials that stands for the one that
// `make image` makes. It is linked from what other tests have compiled, instead of being built
// without cgo, which takes minutes.
var salectl = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries, "salectl")
	err := goCommand("../..", "build", "-ldflags", "-s -w -linkmode=external -extldflags=-static", "-o", path, ".")
	return path, errors.Join(err, os.WriteFile(path+".cdx.json", []byte(bill), 0o644))
})

const bill = `{"bomFormat": "CycloneDX"}`

// imageTool is the program that `make image` runs.
var imageTool = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries, "image")
	return path, goCommand("../../internal/image", "build", "-o", path, ".")
})

// goCommand runs the go command in a folder.
func goCommand(dir string, args ...string) error {
	c := exec.Command("go", args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return errors.New(strings.Join(args, " ") + ": " + err.Error() + "\n" + string(out))
	}
	return nil
}

// makeImage writes the layout of an image of a program, and returns what the tool has printed.
func makeImage(t *testing.T, out, program string) string {
	t.Helper()
	tool, err := imageTool()
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(tool, "-out", out, program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return strings.TrimSpace(string(said))
}

// image returns the image of this machine's platform in a layout, and the digest of its index.
func image(t *testing.T, path string) (v1.Image, v1.Hash) {
	t.Helper()
	top, err := layout.ImageIndexFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := top.IndexManifest()
	if err != nil || len(entries.Manifests) != 1 {
		t.Fatalf("the layout has %+v: %v; tools that copy it expect one index", entries, err)
	}
	index, err := top.ImageIndex(entries.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	of, err := index.IndexManifest()
	if err != nil || len(of.Manifests) != 1 || !of.Manifests[0].Platform.Equals(v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}) {
		t.Fatalf("the index has %+v: %v", of, err)
	}
	is, err := index.Image(of.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return is, entries.Manifests[0].Digest
}

// unpack writes the files of an image to a folder.
func unpack(t *testing.T, of v1.Image, root string) {
	t.Helper()
	packed := mutate.Extract(of)
	defer packed.Close()
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, h.Name)
		if h.Uid != 0 || h.Gid != 0 || h.Mode&0o022 != 0 {
			t.Errorf("%s can be changed by the user of the image: %d:%d %o", h.Name, h.Uid, h.Gid, h.Mode)
		}
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, fs.FileMode(h.Mode))
		} else {
			var content []byte
			if content, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, content, fs.FileMode(h.Mode))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// small builds a program that does nothing, with a bill of materials beside it.
func small(t *testing.T, name string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.go"), filepath.Join(dir, name)
	err := errors.Join(os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600), os.WriteFile(path+".cdx.json", []byte(bill), 0o644))
	if err == nil {
		err = goCommand(dir, append(append([]string{"build", "-o", path}, flags...), source)...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// An image is the same whenever it is made, says what it is, and has what salectl needs.
func TestImage(t *testing.T) {
	out, program := filepath.Join(t.TempDir(), "image"), small(t, "static")
	first := makeImage(t, out, program)
	second := makeImage(t, out, program)
	is, digest := image(t, out)
	if err := validate.Image(is); err != nil {
		t.Error(err)
	}
	if first != second || first != digest.String() {
		t.Errorf("made twice, it has the digests %s and %s, and its index is %s", first, second, digest)
	}
	config, err := is.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; c.User != "65532:65532" || len(c.Entrypoint) != 1 || c.Labels["org.opencontainers.image.title"] != "salectl" || c.Labels["org.opencontainers.image.created"] == "" {
		t.Errorf("%+v", c)
	}
	root := t.TempDir()
	unpack(t, is, root)
	roots, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if pool := x509.NewCertPool(); err != nil || !pool.AppendCertsFromPEM(roots) || bytes.Count(roots, []byte("BEGIN CERTIFICATE")) < 50 {
		t.Errorf("%d authorities: %v", bytes.Count(roots, []byte("BEGIN CERTIFICATE")), err)
	}
	if bill, err := os.ReadFile(filepath.Join(root, "salectl.cdx.json")); err != nil || !bytes.Contains(bill, []byte("CycloneDX")) {
		t.Errorf("the bill of materials: %s, %v", bill, err)
	}
}

// What would not run from an empty image is not put into one, and no other folder is replaced.
func TestImageRefused(t *testing.T) {
	tool, err := imageTool()
	if err != nil {
		t.Fatal(err)
	}
	program, dynamic, lone := small(t, "static"), small(t, "dynamic", "-ldflags", "-linkmode=external"), small(t, "lone")
	if err := os.Remove(lone + ".cdx.json"); err != nil {
		t.Fatal(err)
	}
	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, out, program, want string }{
		{"dynamic", filepath.Join(t.TempDir(), "out"), dynamic, "build it with CGO_ENABLED=0"},
		{"no bill of materials", filepath.Join(t.TempDir(), "out"), lone, "the bill of materials is missing"},
		{"a folder of other things", taken, program, "name another folder with -out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said, err := exec.Command(tool, "-out", tt.out, tt.program).CombinedOutput()
			if err == nil || !strings.Contains(string(said), tt.want) {
				t.Errorf("%v: %s; want %s", err, said, tt.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(taken, "mine")); err != nil {
		t.Error(err)
	}
}
