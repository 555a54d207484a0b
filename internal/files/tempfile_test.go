package files

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// names lists a folder.
func names(t *testing.T, folder string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// A process that dies leaves its temporary file without a lock. The next one removes that,
// and nothing else: not that of another that lives, nor what only has a similar name.
func TestTemps(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "export[1].ndjson")
	living, err := CreateTemp(path)
	if err != nil {
		t.Fatal(err)
	}
	defer living.Close()
	dead, err := CreateTemp(path)
	if err != nil {
		t.Fatal(err)
	}
	dead.Close() // as the end of its process does
	others := []string{
		"export[1].ndjson", "export[1].ndjson.partial", "export[1].ndjson..partial", "export[1].ndjson.7x.partial",
		"77.partial", "export1.ndjson.77.partial", "other-export[1].ndjson.77.partial", "export[1].ndjson.77",
	}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(path+".78.partial", 0o700); err != nil {
		t.Fatal(err)
	}
	mine, err := CreateTemp(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	want := append(slices.Clone(others), "export[1].ndjson.78.partial", filepath.Base(living.Name()), filepath.Base(mine.Name()))
	slices.Sort(want)
	for range 2 {
		if got := names(t, folder); !slices.Equal(got, want) {
			t.Errorf("there are\n%q, want\n%q", got, want)
		}
		RemoveTemps(path)
	}
	if f, err := CreateTemp(filepath.Join(folder, "none", "export.ndjson")); err == nil {
		t.Errorf("in a folder that does not exist, there is %v", f)
	}
}

// A name may be that of another file by now, or of none.
func TestSameFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for what, test := range map[string]struct {
		name string
		want bool
	}{"its own": {name, true}, "another's": {filepath.Dir(name), false}, "nobody's": {name + "b", false}} {
		if got := sameFile(f, test.name); got != test.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// A temporary file is its writer's until it has its final name, which nobody removes.
func TestTempWhileMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "export.ndjson")
	saving := Saving{Check: func(string) error {
		RemoveTemps(path) // another begins at this moment
		return nil
	}}
	_, err := saving.Save(path, func(io.Writer) error { return nil })
	RemoveTemps(path)
	if _, gone := os.Stat(path); err != nil || gone != nil {
		t.Errorf("%v, %v", err, gone)
	}
}

// A file with other content is replaced only with Saving.Replace.
func TestSaveBesideAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, c := range []struct {
		text  string
		how   Saving
		wrong bool
		mode  fs.FileMode
	}{
		{"one", Saving{}, false, 0o600},
		{"one", Saving{}, false, 0o600},
		{"two", Saving{}, true, 0o600},
		{"two", Saving{Replace: true, Mode: 0o644}, false, 0o644},
	} {
		digest, err := c.how.Save(path, func(to io.Writer) error {
			_, err := io.WriteString(to, c.text)
			return err
		})
		has, _ := os.ReadFile(path)
		info, err2 := os.Stat(path)
		if err2 != nil {
			t.Fatal(err2)
		}
		if c.wrong != errors.Is(err, ErrExists) || c.wrong == (string(has) == c.text) || info.Mode().Perm() != c.mode {
			t.Errorf("%q, %+v: %v, and the file is %q with mode %v", c.text, c.how, err, has, info.Mode())
		}
		if want := sha256.Sum256([]byte(c.text)); !c.wrong && !bytes.Equal(digest, want[:]) {
			t.Errorf("%q: digest %x", c.text, digest)
		}
	}
}
