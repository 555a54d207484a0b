package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/spec"
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

// disk is a disk that takes down when something is synced, and fails now and then.
type disk struct {
	t      *testing.T
	path   string
	fails  int // which of the syncs; 0: none
	synced []string
}

var errDisk = errors.New("the disk is broken")

func (d *disk) sync(f *os.File) error {
	d.synced = append(d.synced, filepath.Base(f.Name()))
	if len(d.synced) == d.fails {
		return errDisk
	}
	_, err := os.Stat(d.path)
	if final := len(d.synced) > 1; final != (err == nil) {
		d.t.Errorf("sync %d: the export has its name: %v", len(d.synced), err == nil)
	}
	if len(d.synced) == 1 {
		// All of it must be there by now, and to be synced.
		text, err := os.ReadFile(f.Name())
		if err != nil || !bytes.HasSuffix(text, []byte("\n")) || !bytes.Contains(text, []byte(`{"shard":2,`)) {
			d.t.Errorf("synced before it is written: %d bytes, %v", len(text), err)
		}
	}
	return f.Sync()
}

// What follows an export deletes the ledger. So the export has to be on the disk, and
// its name too.
func TestExportIsSynced(t *testing.T) {
	w := newWorld(t)
	sold(w)
	p := w.begin(w.planDestroy())
	for !p.isNext("export") {
		p.step(inOrder)
	}
	for fails, want := range map[int]error{0: nil, 1: errDisk, 2: errDisk, 3: errDisk, 4: errDisk} {
		d := &disk{t: t, path: filepath.Join(t.TempDir(), "export.ndjson"), fails: fails}
		_, _, err := fileExporter(d.path, d.sync)(t.Context(), p.job())
		if !errors.Is(err, want) || fails == 0 && err != nil {
			t.Errorf("sync %d fails: %v", fails, err)
		}
		if fails == 1 && len(names(t, filepath.Dir(d.path))) > 0 {
			t.Error("an export that is not on the disk has its name")
		}
		if fails == 3 && slices.Contains(names(t, filepath.Dir(d.path)), "export.ndjson.sha256") {
			t.Error("a manifest that is not on the disk has its name")
		}
		folder := filepath.Base(filepath.Dir(d.path))
		if fails == 0 && (len(d.synced) != 4 || !strings.HasPrefix(d.synced[0], "export.ndjson.") || d.synced[1] != folder ||
			!strings.HasPrefix(d.synced[2], "export.ndjson.sha256.") || d.synced[3] != folder) {
			t.Errorf("synced were %q", d.synced)
		}
	}
}

// ReadExport folds the commits of an export, as whoever has nothing else of the sale
// would, and audits it.
func ReadExport(content []byte) (header export.Header, shards []*ledger.State, err error) {
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	if err := json.Unmarshal(first, &header); err != nil {
		return header, nil, err
	}
	for i := range header.Roots {
		shards = append(shards, ledger.NewState(spec.ShardLog(header.UID, i, len(header.Roots))))
	}
	for line := range bytes.Lines(rest) {
		var c struct {
			Shard  int
			Commit []byte
			Log    string `json:"log"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			return header, nil, err
		}
		if c.Commit == nil || c.Log != "" { // the line of a claim, or of no shard
			continue
		}
		if err := shards[c.Shard].Fold(c.Commit); err != nil {
			return header, nil, err
		}
	}
	a, _, err := export.Audit(bytes.NewReader(content), nil)
	if err == nil && !a.OK {
		err = errors.New(strings.Join(a.Problems, "\n"))
	}
	return header, shards, err
}
