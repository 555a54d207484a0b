package files

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
)

// ManifestPath returns the path of a file's manifest: a line in the format of sha256sum, with
// the SHA-256 of the file.
func ManifestPath(path string) string { return path + ".sha256" }

// NoManifestError reports that the file at the path of a manifest is no manifest of the file.
type NoManifestError struct{ Path string }

func (e *NoManifestError) Error() string {
	return fmt.Sprintf("%s is no manifest of %s", ManifestPath(e.Path), e.Path)
}

// ReadManifest returns the SHA-256 in the manifest of a file. If there is no manifest, the
// error is fs.ErrNotExist.
func ReadManifest(path string) ([]byte, error) {
	const most = 8 << 10 // exceeds any digest and path
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
