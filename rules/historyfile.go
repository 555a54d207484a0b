package rules

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"salectl/internal/files"
	"salectl/spec"
)

// HistoryFiles is a Histories that reads exports once and keeps them in memory. Only the sold
// claims of each export count.
type HistoryFiles struct {
	users map[string][]Purchase
	runs  map[string]*exportedRun // by uid
}

// exportedRun is a run of a sale, as read from its export.
type exportedRun struct {
	file   string
	header exportHeader
	bought map[string]Purchase // by user
}

// OpenHistoryFiles reads the exports that match patterns, as HistoryPaths. Of several exports of
// one run the newest counts. An incomplete export, or one that does not match its manifest, is an
// error. A missing file is a *spec.Problem.
func OpenHistoryFiles(patterns []string) (*HistoryFiles, error) {
	h := &HistoryFiles{users: map[string][]Purchase{}, runs: map[string]*exportedRun{}}
	paths, err := HistoryPaths(patterns)
	if err != nil {
		return nil, err
	}
	for _, file := range paths {
		run, err := readExport(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &spec.Problem{File: file, Message: "there is no such export, which history.files names", Cause: err,
				Remedy: "Put it there, or write a pattern such as exports/*.ndjson, which may match nothing yet."}
		}
		if err == nil {
			err = h.add(run)
		}
		if err != nil {
			return nil, fmt.Errorf("the history in %s: %w", file, err)
		}
	}
	for _, run := range h.runs {
		for user, p := range run.bought {
			h.users[user] = append(h.users[user], p)
		}
		run.bought = nil
	}
	return h, nil
}

// add stores a run unless a newer export of it is stored.
func (h *HistoryFiles) add(run *exportedRun) error {
	uid := run.header.UID
	other := h.runs[uid]
	if other != nil && run.header.Counts.Slots == other.header.Counts.Slots && !slices.Equal(run.header.Roots, other.header.Roots) {
		return fmt.Errorf("it is another export of run %s than %s, and neither is newer; 'salectl audit --export FILE' finds the one that was altered", uid, other.file)
	}
	if other == nil || run.header.Counts.Slots > other.header.Counts.Slots {
		h.runs[uid] = run
	}
	return nil
}

// Continues returns an error if a run of earlier is missing in h, or only in an older export.
func (h *HistoryFiles) Continues(earlier *HistoryFiles) error {
	for uid, was := range earlier.runs {
		switch is := h.runs[uid]; {
		case is == nil:
			return fmt.Errorf("run %s of sale %s is in no export any more; it was in %s: restore that file, or restart this process to forget the run", uid, was.header.Sale, was.file)
		case is.header.Counts.Slots < was.header.Counts.Slots:
			return fmt.Errorf("%s is an older export of run %s of sale %s than the one read before: restore the newer one, or restart this process", is.file, uid, was.header.Sale)
		}
	}
	return nil
}

// HistoryPaths returns the files that match patterns, as filepath.Match. A pattern without matches
// is not an error: the first sale of a series has no history. A name without a wildcard is returned
// even if its file is missing, so that the reader reports it.
func HistoryPaths(patterns []string) (all []string, err error) {
	for _, pattern := range patterns {
		paths, err := match(pattern)
		if err != nil {
			return nil, fmt.Errorf("the pattern %q of history.files: %w", pattern, err)
		}
		all = append(all, paths...)
	}
	return all, nil
}

// match is filepath.Glob with errors: an unreadable folder is not an empty one.
func match(pattern string) (all []string, err error) {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, err
	}
	if file, is := plainName(pattern); is {
		return []string{file}, nil
	}
	parent, name := filepath.Split(pattern)
	folders, err := match(filepath.Clean(cmp.Or(parent, ".")))
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		entries, err := files.ReadDir(folder)
		_, named := plainName(parent)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR) && !named:
			continue
		case err != nil:
			return nil, err
		}
		for _, entry := range entries {
			if is, _ := filepath.Match(name, entry.Name()); is {
				all = append(all, filepath.Join(folder, entry.Name()))
			}
		}
	}
	return all, nil
}

// MatchNothing returns the patterns that match no file.
func MatchNothing(patterns []string) (idle []string) {
	for _, pattern := range patterns {
		if paths, err := HistoryPaths([]string{pattern}); err == nil && len(paths) == 0 {
			idle = append(idle, pattern)
		}
	}
	return idle
}

// plainName returns the unescaped name of a pattern without wildcards.
func plainName(pattern string) (name string, is bool) {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch {
		case strings.IndexByte("*?[", pattern[i]) >= 0:
			return "", false
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
		}
		b.WriteByte(pattern[i])
	}
	return b.String(), true
}

// History implements Histories. It never fails.
func (h *HistoryFiles) History(_ context.Context, ids []string) ([][]Purchase, error) {
	all := make([][]Purchase, len(ids))
	for i, id := range ids {
		all[i] = h.users[id]
	}
	return all, nil
}

// exportHeader holds the fields of an export's first line that a history needs. Their names in JSON
// differ by case only.
type exportHeader struct {
	Format            int
	Kind, Sale, UID   string
	Roots             []string
	Counts            struct{ Slots, Claims, Sold int64 }
	SaleLog, UnitsLog struct{ Slots int64 }
}

// exportClaim holds the fields of a claim's line that a history needs, named in the same way.
type exportClaim struct {
	Claim, User, State string
	Units              []int64
	At                 time.Time
}

// Supported values of the header of an export.
const (
	exportFormat = 1
	exportKind   = "export"
)

// readExport reads an export to its end. It must contain everything that its header counts, and
// match its manifest if one lies beside it.
func readExport(file string) (*exportedRun, error) {
	f, err := files.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	digest := sha256.New()
	lines := bufio.NewReaderSize(io.TeeReader(f, digest), 1<<16)
	run := &exportedRun{file: file, bought: map[string]Purchase{}}
	h := &run.header
	line, err := lines.ReadBytes('\n')
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch bad := json.Unmarshal(line, h); {
	case bad != nil || h.Kind != exportKind || h.UID == "":
		return nil, errors.New("its first line is not that of an export; name files that 'salectl export' or 'destroy' has written")
	case h.Format != exportFormat:
		return nil, fmt.Errorf("an export of format %d cannot be read, only format %d", h.Format, exportFormat)
	}
	var slots, other, claims, sold int64
	for n := 2; ; n++ {
		line, err := lines.ReadBytes('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			want := h.SaleLog.Slots + h.UnitsLog.Slots
			if slots != h.Counts.Slots || other != want || claims != h.Counts.Claims || sold != h.Counts.Sold {
				return nil, fmt.Errorf("it is incomplete: its header counts %d claims, %d units sold and %d commits, and there are %d, %d and %d",
					h.Counts.Claims, h.Counts.Sold, h.Counts.Slots+want, claims, sold, slots+other)
			}
			return run, checkManifest(file, digest.Sum(nil))
		case err == io.EOF:
			return nil, fmt.Errorf("it ends in the middle of line %d", n)
		case err != nil:
			return nil, err
		case bytes.HasPrefix(line, []byte(`{"shard":`)):
			slots++
			continue
		case bytes.HasPrefix(line, []byte(`{"log":`)):
			other++
			continue
		}
		var c exportClaim
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if c.Claim == "" || c.User == "" {
			return nil, fmt.Errorf("line %d is neither a claim nor a commit", n)
		}
		claims++
		if c.State != "sold" {
			continue
		}
		p := run.bought[c.User]
		p.Sale, p.Run, p.Units = h.Sale, h.UID, p.Units+int64(len(c.Units))
		if c.At.After(p.At) {
			p.At = c.At
		}
		run.bought[c.User] = p
		sold += int64(len(c.Units))
	}
}

// checkManifest compares the SHA-256 of a file with its manifest, if one lies beside it.
func checkManifest(file string, digest []byte) error {
	recorded, err := files.ReadManifest(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !bytes.Equal(recorded, digest):
		return fmt.Errorf("%s has the SHA-256 %x, but the file %x: one of the two was altered", files.ManifestPath(file), recorded, digest)
	}
	return nil
}
