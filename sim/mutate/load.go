package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// targets are the code that has mutants: what decides what is sold, and what
// judges that. Shells, which call a server or a disk and decide nothing, are
// left out: their tests need servers. No test may need a file of the repository.
var targets = []target{
	{folder: "backends/ledger"},
	{folder: "backends/ledger/audit", also: []string{"backends/ledger"}},
	{folder: "backends/ledger/export", also: []string{"backends/ledger"}},
	{folder: "backends/ledger/payload", also: []string{"backends/ledger"}},
	{folder: "backends/ledger/internal/chunked", also: []string{"backends/ledger"}},
	{folder: "backends/lists"},
	{folder: "backends/quorum"},
	{folder: "executor", without: []string{"loops", "run", "service"}},
	{folder: "executor/listengine", also: []string{"executor/shard", "executor/process"}},
	{folder: "executor/ownership", without: []string{"nodes"}},
	{folder: "executor/peers", without: []string{"codec", "peer", "streams"}, also: []string{"executor/process"}},
	{folder: "executor/process"},
	{folder: "executor/request", also: []string{"executor/shard", "executor/process"}},
	{folder: "executor/shard", also: []string{"executor/listengine", "executor/process"}},
	{folder: "planner", also: []string{"planner/apply"}},
	{folder: "planner/apply", without: []string{"export", "run"}},
	{folder: "planner/current", also: []string{"planner/apply"}},
	{folder: "planner/machine", without: []string{"machine"}, also: []string{"planner/apply"}},
	{folder: "sim/check"},
}

// target is a folder, less some files that are named without .go. also are folders whose
// tests try its code as well.
type target struct {
	folder  string
	without []string
	also    []string
}

// testedIn returns the folders whose tests try the code of one, that one first.
func testedIn(folder string) []string {
	all := []string{folder}
	for _, t := range targets {
		if t.folder == folder {
			all = append(all, t.also...)
		}
	}
	return all
}

// listed is the output of go list about a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Standard, DepOnly       bool
}

// load finds the mutants of the targets.
func load(ctx context.Context, root string, targets []target) ([]pkg, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly"}
	for _, t := range targets {
		args = append(args, "./"+t.folder)
	}
	out, err := goTool(ctx, root, args...)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	var wanted []listed
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly {
			wanted = append(wanted, l)
		}
	}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var all []pkg
	for _, t := range targets {
		at := slices.IndexFunc(wanted, func(l listed) bool { return l.Dir == filepath.Join(root, t.folder) })
		p, err := loadPackage(root, wanted[at], imports)
		if err != nil {
			return nil, err
		}
		p.files = slices.DeleteFunc(p.files, func(s *source) bool {
			return slices.Contains(t.without, strings.TrimSuffix(path.Base(s.name), ".go"))
		})
		all = append(all, p)
	}
	return all, nil
}

func goTool(ctx context.Context, dir string, args ...string) (string, error) {
	var out, complaint strings.Builder
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, complaint.String())
	}
	return out.String(), nil
}

// overlay writes the files with their mutants to a folder, and the list of them
// that the go command takes. The tree itself stays as it is.
func overlay(root, temp string, all []pkg) (file string, err error) {
	replace := map[string]string{}
	for _, p := range all {
		for _, s := range p.files {
			if len(s.found) == 0 {
				continue
			}
			to := filepath.Join(temp, strings.ReplaceAll(s.name, "/", "_"))
			if err := os.WriteFile(to, []byte(s.written()), 0o644); err != nil {
				return "", err
			}
			replace[filepath.Join(root, s.name)] = to
		}
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(temp, "overlay.json")
	return file, os.WriteFile(file, b, 0o644)
}
