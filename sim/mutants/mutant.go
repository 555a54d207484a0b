package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one planted bug: a patch whose first line says what it is.
type mutant struct {
	name    string // of the file, without .patch
	file    string
	title   string   // the first line
	touched []string // files, from the root of the tree
}

// plus names a file that a patch changes.
var plus = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)

// load reads the mutants of a folder, in order of their names: those asked for,
// or all.
func load(dir string, names []string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, file := range files {
		m, err := read(file)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 || slices.Contains(names, m.name) {
			all = append(all, m)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.name == name }) {
			return nil, fmt.Errorf("there is no planted bug %q in %s", name, dir)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there are no planted bugs in %s", dir)
	}
	return all, nil
}

var errNoTitle = errors.New("a patch begins with a sentence that says what is planted")

func read(file string) (mutant, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: strings.TrimSuffix(filepath.Base(file), ".patch"), file: file}
	m.title, _, _ = strings.Cut(string(text), "\n")
	if m.title == "" || strings.HasPrefix(m.title, "diff ") || strings.HasPrefix(m.title, "---") {
		return mutant{}, fmt.Errorf("%s: %w", file, errNoTitle)
	}
	for _, found := range plus.FindAllStringSubmatch(string(text), -1) {
		m.touched = append(m.touched, found[1])
	}
	if len(m.touched) == 0 {
		return mutant{}, fmt.Errorf("%s changes no file: is it a unified diff with a/ and b/ before the names?", file)
	}
	return m, nil
}

// packages are those that the patch changes. What imports them need not be
// built to see that it is sound: no planted bug changes what is exported.
func (m mutant) packages() []string {
	var all []string
	for _, file := range m.touched {
		all = append(all, "./"+path.Dir(file))
	}
	slices.Sort(all)
	return slices.Compact(all)
}
