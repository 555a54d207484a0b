package rules

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"salectl/spec"
)

// HistoryFiles is Histories of exports, read once and kept in memory. Of each export
// the claims count that are sold in it.
type HistoryFiles struct {
	users map[string][]Purchase
	runs  map[string]string // the file of each run, by uid
}

// OpenHistoryFiles reads the exports that patterns name, as HistoryPaths has them. Two
// exports of one run count once. One that is not there is a *spec.Problem.
func OpenHistoryFiles(patterns []string) (*HistoryFiles, error) {
	h := &HistoryFiles{users: map[string][]Purchase{}, runs: map[string]string{}}
	files, err := HistoryPaths(patterns)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		err := h.read(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &spec.Problem{File: file, Message: "there is no such export, which history.files names", Cause: err,
				Remedy: "Put it there, or write a pattern such as exports/*.ndjson, which may match nothing yet."}
		}
		if err != nil {
			return nil, fmt.Errorf("the history in %s: %w", file, err)
		}
	}
	return h, nil
}

// HistoryPaths are the files that patterns name, as filepath.Match has them. A pattern
// that matches nothing is no error: the first sale of a series has no history. A name
// without a wildcard is there whether or not its file is, for whoever reads it to report.
func HistoryPaths(patterns []string) (all []string, err error) {
	for _, pattern := range patterns {
		if file, is := plainName(pattern); is {
			all = append(all, file)
			continue
		}
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("the pattern %q of history.files: %w", pattern, err)
		}
		if folder, is := plainName(filepath.Dir(pattern)); is && len(files) == 0 { // Glob does not say that it could not look
			if _, err := os.ReadDir(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("the pattern %q of history.files: %w", pattern, err)
			}
		}
		all = append(all, files...)
	}
	return all, nil
}

// MatchNothing returns those of some patterns that match no file.
func MatchNothing(patterns []string) (idle []string) {
	for _, pattern := range patterns {
		if files, err := HistoryPaths([]string{pattern}); err == nil && len(files) == 0 {
			idle = append(idle, pattern)
		}
	}
	return idle
}

// plainName returns the name that a pattern is which has no wildcard.
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

// Runs is the number of runs of sales that were read.
func (h *HistoryFiles) Runs() int { return len(h.runs) }

// History implements Histories. It never fails.
func (h *HistoryFiles) History(_ context.Context, ids []string) ([][]Purchase, error) {
	all := make([][]Purchase, len(ids))
	for i, id := range ids {
		all[i] = h.users[id]
	}
	return all, nil
}

// exportLine is what a history takes of a line of an export: the header, or a claim.
type exportLine struct {
	Format int       `json:"format"`
	Kind   string    `json:"kind"`
	UID    string    `json:"uid"`
	Claim  string    `json:"claim"`
	Sale   string    `json:"sale"`
	User   string    `json:"user"`
	Units  []int64   `json:"units"`
	State  string    `json:"state"`
	At     time.Time `json:"at"`
}

// What the header of an export says that can be read.
const (
	exportFormat = 1
	exportKind   = "export"
)

func (h *HistoryFiles) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 1<<16)
	var header exportLine
	if err := nextLine(lines, &header); err != nil || header.Format != exportFormat || header.Kind != exportKind || header.UID == "" {
		return errors.New("its first line is not that of an export; name files that 'salectl export' or 'destroy' has written")
	}
	if _, known := h.runs[header.UID]; known {
		return nil
	}
	h.runs[header.UID] = file
	bought := map[string]Purchase{}
	for n := 2; ; n++ {
		var line exportLine
		switch err := nextLine(lines, &line); {
		case errors.Is(err, io.EOF) || err == nil && line.Claim == "": // the commits begin
			for user, p := range bought {
				h.users[user] = append(h.users[user], p)
			}
			return nil
		case err != nil:
			return fmt.Errorf("line %d: %w", n, err)
		case line.State != "sold":
		default:
			p := bought[line.User]
			p.Sale, p.Run, p.Units = header.Sale, header.UID, p.Units+int64(len(line.Units))
			if line.At.After(p.At) {
				p.At = line.At
			}
			bought[line.User] = p
		}
	}
}

func nextLine(from *bufio.Reader, to *exportLine) error {
	line, err := from.ReadBytes('\n')
	if len(bytes.TrimSpace(line)) == 0 {
		if err == nil {
			err = errors.New("the line is empty")
		}
		return err
	}
	return json.Unmarshal(line, to)
}
