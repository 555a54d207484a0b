// Command image writes a container image of salectl without a container engine: an OCI layout
// with one image for each program that it is given, below one index.
//
// An image has nothing but the program, its bill of materials, the certificates of the
// authorities that browsers believe, and a user that may do nothing. Platform, version and time
// are those of the program, so that the same programs make the same digests anywhere.
package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is whom the program runs as: a number that no system has for somebody else. Kubernetes'
// runAsNonRoot wants a number, and the name is what the ledger records as the user who applied a sale.
const user = "65532"

func main() {
	out := flag.String("out", "", "write the layout to this `folder`; an older layout there is replaced")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "usage: image -out FOLDER PROGRAM...\n\nPROGRAM is a static salectl for Linux; PROGRAM.cdx.json beside it is its bill of materials.\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	digest, err := write(*out, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

// write writes the layout of an image of programs, and returns the digest of its index.
func write(out string, programs []string) (v1.Hash, error) {
	_, err := os.Stat(filepath.Join(out, "oci-layout"))
	old := err == nil
	if entries, err := os.ReadDir(out); !old && len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return v1.Hash{}, fmt.Errorf("%s is there and is no layout of an image; name another folder with -out: %w", out, errors.Join(fs.ErrExist, err))
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, path := range programs {
		image, platform, err := imageOf(path)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("%s: %w", path, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	if old {
		if err := os.RemoveAll(out); err != nil {
			return v1.Hash{}, err
		}
	}
	written, err := layout.Write(out, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := written.AppendIndex(index); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// imageOf is the image of one program.
func imageOf(path string) (v1.Image, *v1.Platform, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("no program of Go: %w", err)
	}
	if err := static(path); err != nil {
		return nil, nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	bill, err := os.ReadFile(path + ".cdx.json")
	if err != nil {
		return nil, nil, fmt.Errorf("the bill of materials is missing, 'make image' makes it: %w", err)
	}
	at, err := time.Parse(time.RFC3339, setting(info, "vcs.time", time.Unix(0, 0).UTC().Format(time.RFC3339)))
	if err != nil {
		return nil, nil, err
	}
	system, err := layer(at, files{
		"etc/passwd":                        {0o644, []byte("salectl:x:" + user + ":" + user + "::/:/sbin/nologin\n")},
		"etc/group":                         {0o644, []byte("salectl:x:" + user + ":\n")},
		"etc/ssl/certs/ca-certificates.crt": {0o644, authorities()},
	})
	if err != nil {
		return nil, nil, err
	}
	own, err := layer(at, files{"salectl": {0o755, program}, "salectl.cdx.json": {0o644, bill}})
	if err != nil {
		return nil, nil, err
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: system, History: v1.History{CreatedBy: "authorities, user", Created: v1.Time{Time: at}}},
		mutate.Addendum{Layer: own, History: v1.History{CreatedBy: "salectl", Created: v1.Time{Time: at}}})
	if err != nil {
		return nil, nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	platform := &v1.Platform{OS: setting(info, "GOOS", ""), Architecture: setting(info, "GOARCH", "")}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: at}
	config.Config = v1.Config{
		Entrypoint: []string{"/salectl"}, WorkingDir: "/", User: user + ":" + user,
		Labels: map[string]string{
			"org.opencontainers.image.title":       "salectl",
			"org.opencontainers.image.description": "Runs a flash sale from a YAML file",
			"org.opencontainers.image.created":     at.Format(time.RFC3339),
		},
	}
	for label, value := range map[string]string{"version": strings.Trim(info.Main.Version, "()"), "revision": setting(info, "vcs.revision", "")} {
		if value != "" {
			config.Config.Labels["org.opencontainers.image."+label] = value
		}
	}
	image, err = mutate.ConfigFile(image, config)
	return image, platform, err
}

// static refuses a program that needs the libraries of a system: the image has none.
func static(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("no program for Linux: %w", err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return errors.New("the program needs the libraries of a system, and the image has none; build it with CGO_ENABLED=0")
	}
	return nil
}

// setting is what the go command has noted of how a program was built.
func setting(info *debug.BuildInfo, key, otherwise string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return otherwise
}

// authorities are the roots of Mozilla, in PEM. Those that are believed under conditions that
// PEM cannot express are left out.
func authorities() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return all.Bytes()
}

// files are what a layer has, by path.
type files map[string]struct {
	mode    int64
	content []byte
}

// layer is a layer of files that belong to root, with the folders that they are in.
func layer(at time.Time, of files) (v1.Layer, error) {
	all := make(map[string]*tar.Header)
	for path, file := range of {
		all[path] = &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: file.mode, Size: int64(len(file.content)), ModTime: at}
		for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
			all[dir] = &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at}
		}
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, path := range slices.Sorted(maps.Keys(all)) { // a folder before what is in it
		if err := w.WriteHeader(all[path]); err != nil {
			return nil, err
		}
		if _, err := w.Write(of[path].content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
