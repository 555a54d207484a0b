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

// mutant is one planted bug: a patch whose first line describes it.
type mutant struct {
	name    string // of the file, from the folder of all on, without .patch
	file    string
	touched []string // files, from the root of the tree
	test    []string // arguments of the go test that finds it; none: a soak does
}

// plus names a file that a patch changes.
var plus = regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`)

// locks is the folder, in that of all, of the bugs that a test is to find.
const locks = "locks"

// load reads the mutants of a folder, in order of their names: the requested ones,
// or all.
func load(dir string, names []string) ([]mutant, error) {
	var files []string
	for _, pattern := range []string{"*.patch", filepath.Join(locks, "*.patch")} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	var all []mutant
	for _, file := range files {
		m, err := read(dir, file)
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

var (
	errNoTitle = errors.New("a patch begins with a sentence that describes the bug")
	errNoTest  = errors.New("its head names no test that finds it, such as: Test: ./backends/quorum -run '^TestName$'")
)

// testLine names, in the head of a patch, the test that finds the bug.
var testLine = regexp.MustCompile(`(?m)^Test: (\./\S+) -run '?([^' \n]+)'?$`)

func read(dir, file string) (mutant, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return mutant{}, err
	}
	name, err := filepath.Rel(dir, file)
	if err != nil {
		return mutant{}, err
	}
	m := mutant{name: strings.TrimSuffix(filepath.ToSlash(name), ".patch"), file: file}
	head, _, _ := strings.Cut(string(text), "\n--- ")
	if found := testLine.FindStringSubmatch(head); found != nil {
		m.test = []string{"-run", found[2], found[1]}
	} else if strings.HasPrefix(m.name, locks+"/") {
		return mutant{}, fmt.Errorf("%s: %w", file, errNoTest)
	}
	title, _, _ := strings.Cut(string(text), "\n")
	if title == "" || strings.HasPrefix(title, "diff ") || strings.HasPrefix(title, "---") {
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
