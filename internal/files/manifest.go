package files

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
)

// ManifestPath is where the manifest of a file lies, if it has one: a line as sha256sum
// writes it, with the SHA-256 of the file.
func ManifestPath(path string) string { return path + ".sha256" }

// NoManifestError says that what lies where the manifest of a file is to be is none of it.
type NoManifestError struct{ Path string }

func (e *NoManifestError) Error() string {
	return fmt.Sprintf("%s is no manifest of %s", ManifestPath(e.Path), e.Path)
}

// ReadManifest returns the SHA-256 that the manifest of a file says. No manifest is
// fs.ErrNotExist.
func ReadManifest(path string) ([]byte, error) {
	const most = 8 << 10 // more than a digest and a path have
	text, err := Read(ManifestPath(path), most)
	if err != nil {
		return nil, err
	}
	line, rest, ended := strings.Cut(string(text), "\n")
	says, name, _ := strings.Cut(line, " ")
	digest, err := hex.DecodeString(says)
	if err != nil || len(digest) != 32 || !ended || rest != "" || len(name) < 2 || !strings.ContainsAny(name[:1], " *") || filepath.Base(name[1:]) != filepath.Base(path) {
		return nil, &NoManifestError{path}
	}
	return digest, nil
}
