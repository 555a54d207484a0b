package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"salectl/internal/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	text := strings.Repeat("0123456789abcdef", mostAtOnce/10) // more than one call reads
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{1 << 20: text, int64(len(text)): text, 99: text[:100]} {
		if got, err := Read(path, most); err != nil || string(got) != want {
			t.Errorf("at most %d: got %d bytes, %v", most, len(got), err)
		}
	}
	if _, err := Read(path+"x", 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Read(filepath.Dir(path), 1); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a folder: %v", err)
	}
	if all, err := ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("found %v, %v", all, err)
	}
}

// A pipe that nobody writes to is an error at once, one that somebody writes to is read to
// its end, and one whose writer is silent is an error in time.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(path, 100); !errors.Is(err, ErrNoWriter) {
		t.Errorf("without a writer: %q, %v", got, err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	shortly(func() {
		if _, err := Read(path, 100); !errors.Is(err, ErrSlow) || !strings.Contains(err.Error(), path) {
			t.Errorf("with a silent writer: %v", err)
		}
	})
	if _, err := w.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != "hello" {
		t.Errorf("with a writer: %q, %v", got, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// shortly calls f while calls have little time. What is to succeed is called elsewhere: a busy
// machine takes long.
func shortly(f func()) {
	patience = 20 * time.Millisecond
	defer func() { patience = Patience }()
	f()
}

// Calls that are not answered are left behind, a few for one path; others go on, and so does
// that path once it is answered. No file system that hangs can be had in a test.
func TestStuck(t *testing.T) {
	release, late := make(chan struct{}), make(chan int)
	var made atomic.Int64
	stat := func() (int, error) {
		return call("/mnt/a", func() (int, error) { <-release; made.Add(1); return 7, nil }, func(n int) { late <- n })
	}
	shortly(func() {
		for range mostStuck + 2 {
			if n, err := stat(); n != 0 || !errors.Is(err, ErrSlow) || err.Error() != "/mnt/a: it cannot be read: "+ErrSlow.Error() {
				t.Errorf("got %d, %v", n, err)
			}
		}
	})
	if _, err := Stat(t.TempDir()); err != nil {
		t.Errorf("another path: %v", err)
	}
	close(release)
	for range mostStuck {
		if n := <-late; n != 7 {
			t.Errorf("late came %d", n)
		}
	}
	if n := made.Load(); n != mostStuck {
		t.Errorf("%d calls were made, want %d", n, mostStuck)
	}
	wait.UntilNil(t, "an answer", func() error { _, err := stat(); return err })
}

// A file whose read was left behind is not read on: nobody knows where it stands.
func TestSlowFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	shortly(func() {
		if _, err := f.Read(make([]byte, 9)); !errors.Is(err, ErrSlow) {
			t.Error(err)
		}
	})
	if _, err := w.WriteString("hello"); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Read(make([]byte, 9)); n != 0 || !errors.Is(err, ErrSlow) {
		t.Errorf("read %d, %v", n, err)
	}
	if _, err := f.Stat(); !errors.Is(err, ErrSlow) {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestManifest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.csv")
	digest := strings.Repeat("1f", 32)
	for text, fine := range map[string]bool{
		digest + "  users.csv\n":               true,
		digest + " *users.csv\n":               true, // of a binary file, as some systems write
		digest + "  data/users.csv\n":          true,
		digest + "  users.csv":                 false,
		digest + "  others.csv\n":              false,
		digest[2:] + "  users.csv\n":           false,
		digest + " users.csv\n":                false,
		digest + "  users.csv\n" + digest[:10]: false,
		"":                                     false,
	} {
		if err := os.WriteFile(ManifestPath(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadManifest(path)
		if none := errors.Is(err, ErrExists); none == fine || fine && (err != nil || got[0] != 0x1f) {
			t.Errorf("%q: %x, %v", text, got, err)
		}
	}
	if _, err := ReadManifest(path + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no manifest: %v", err)
	}
}

// An error names the file to be written, and never its temporary file.
func TestExplainOfFileToBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"none/a.yaml": "there is no folder " + filepath.Join(dir, "none"),
		"folder":      "it is a folder",
	} {
		path := filepath.Join(dir, name)
		for _, s := range []Saving{{}, {Replace: true}} {
			_, err := s.Save(path, func(io.Writer) error { return nil })
			if failed, is := errors.AsType[*Error](err); !is || failed.Path != path || failed.Why != want || failed.Remedy == "" {
				t.Errorf("%#v", err)
			}
		}
	}
}
