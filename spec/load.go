package spec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"salectl/internal/files"
)

// stdinName is the name of standard input in problems and in Sale.File.
const stdinName = "<stdin>"

// MaxFileSize is the maximum size of a file in bytes.
const MaxFileSize = 1 << 20

// maxProblems bounds the reported problems of one file. More mean that it is the wrong file.
const maxProblems = 1000

// ignoreFile is a file in a folder of sale files with patterns of the names of files that are not read.
const ignoreFile = ".salectlignore"

// Load reads all sales from paths. Each path is a file, a folder, or "-" for stdin. Of a
// folder it reads *.yaml and *.yml, sorted by name, without hidden files, subfolders, and files
// that match a line of .salectlignore. foreign are the files of folders whose documents
// are all of other formats. A file may have several documents. A path named twice is read once.
//
// The result has the sales without a problem in the order of reading, even if err is not nil.
// The error is a *multierror.Error of *Problem with all problems, by file and then by line; at
// most a thousand of one file and a note that there are more.
func Load(paths []string, stdin io.Reader) (sales []Sale, foreign []string, err error) {
	l := loader{stdin: stdin, seen: map[string]bool{}, named: map[string]string{}}
	if len(paths) == 0 {
		l.fail(&Problem{File: "salectl", Message: "no sale file was named",
			Remedy: "Name a file, a folder, or - for standard input."})
	}
	for _, path := range paths {
		l.path(path)
	}
	return l.sales, l.foreign, l.errs.ErrorOrNil()
}

// loader collects the results of all files.
type loader struct {
	stdin   io.Reader
	seen    map[string]bool   // absolute paths of read files
	named   map[string]string // file:line of each sale by name
	listed  bool              // the present file is of a folder, and not named itself
	sales   []Sale
	foreign []string // files of folders without a sale
	errs    *multierror.Error
}

func (l *loader) fail(p *Problem) {
	l.errs = multierror.Append(l.errs, p)
	l.errs.ErrorFormat = ErrorFormat
}

// first reports whether path is new.
func (l *loader) first(path string) bool {
	if path != "-" {
		path = absolute(path)
	}
	if l.seen[path] {
		return false
	}
	l.seen[path] = true
	return true
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func (l *loader) path(path string) {
	if path == "-" {
		if l.first(path) {
			l.stream(stdinName, "", l.stdin)
		}
		return
	}
	info, err := files.Stat(path)
	switch {
	case err != nil:
		l.fail(Unreadable(path, err))
	case info.IsDir():
		l.folder(path)
	default:
		l.file(path)
	}
}

func (l *loader) folder(dir string) {
	entries, err := files.ReadDir(dir) // sorted by name
	if err != nil {
		l.fail(Unreadable(dir, err))
		return
	}
	ignored, found, others := l.ignored(dir), 0, len(l.foreign)
	l.listed = true
	defer func() { l.listed = false }()
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if ext != ".yaml" && ext != ".yml" || strings.HasPrefix(e.Name(), ".") || slices.ContainsFunc(ignored, func(pattern string) bool {
			matches, _ := filepath.Match(pattern, e.Name())
			return matches
		}) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		// A folder may be named x.yaml, or a link may point to one.
		if info, err := files.Stat(path); err == nil && info.IsDir() {
			continue
		}
		found++
		l.file(path)
	}
	others = len(l.foreign) - others
	switch {
	case len(entries) == 0:
		l.fail(&Problem{File: dir, Message: "the folder is empty",
			Remedy: "Put a sale file (*.yaml or *.yml) there, or name another folder. 'salectl init' writes a first one."})
	case found == 0:
		l.fail(&Problem{File: dir, Message: "the folder has no *.yaml or *.yml file",
			Remedy: "Subfolders, hidden files and those that .salectlignore names are not read. Name the right folder, or the file itself. 'salectl init' writes a first one."})
	case found == others:
		l.fail(&Problem{File: dir, Message: "no file of the folder declares a sale",
			Remedy: "Name the right folder, or the file itself. 'salectl init' writes a first one."})
	}
}

// ignored returns the patterns of a folder's ignoreFile.
func (l *loader) ignored(dir string) (patterns []string) {
	path := filepath.Join(dir, ignoreFile)
	f, err := files.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, MaxFileSize))
		f.Close()
	}
	switch {
	case err != nil:
		l.fail(Unreadable(path, err))
	case len(text) == MaxFileSize:
		l.fail(&Problem{File: path, Message: "the file is larger than 1 MiB", Remedy: "Write one pattern for many files, or put the sale files into a folder of their own."})
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		wrong := checkPattern(line)
		if strings.Contains(line, "/") || line[0] == '!' {
			wrong = &fault{"names no file of this folder", "Write a name or a pattern of names, such as values*.yaml."}
		}
		if wrong != nil {
			l.fail(&Problem{File: path, Line: i + 1, Column: 1, Source: line, Message: "this " + wrong.message, Remedy: wrong.remedy})
		}
		patterns = append(patterns, line)
	}
	return patterns
}

func (l *loader) file(path string) {
	if !l.first(path) {
		return
	}
	f, err := files.Open(path)
	if err != nil {
		l.fail(Unreadable(path, err))
		return
	}
	defer f.Close()
	others := len(l.foreign)
	if l.stream(path, filepath.Dir(path), f); len(l.foreign) > others {
		delete(l.seen, absolute(path)) // it is reported if it is named itself
	}
}

// stream reads one file. dir is the base of its relative paths.
func (l *loader) stream(name, dir string, r io.Reader) {
	if r == nil {
		r = strings.NewReader("")
	}
	// One byte more detects a file that is too large without its size, as it may be a pipe.
	text, err := io.ReadAll(io.LimitReader(r, MaxFileSize+1))
	switch {
	case err != nil:
		l.fail(Unreadable(name, err))
		return
	case len(text) > MaxFileSize:
		l.fail(&Problem{File: name, Message: "the file is larger than 1 MiB",
			Remedy: "A sale takes less than 1 kB. Name the right file, or split it."})
		return
	}
	src, problem := newSource(name, dir, string(text))
	if problem != nil {
		l.fail(problem)
		return
	}
	l.documents(src)
}

func (l *loader) documents(src *source) {
	if l.listed && src.foreign() {
		l.foreign = append(l.foreign, src.name)
		return
	}
	reported, some := 0, false // number of problems of this file; whether it has any document
	defer func() {
		if !some {
			l.fail(src.problem(1, 1, "the file has no document",
				"Write a sale there; examples/movie-tickets/sale.yaml is one."))
		}
	}()
	for _, doc := range src.documents() {
		if reported > maxProblems {
			return
		}
		d := decoder{src: src}
		found := d.document(doc)
		if found.empty {
			continue
		}
		some = true
		if name := found.sale.Name; found.nameAt != nil {
			if first, taken := l.named[name]; taken {
				d.refuse(found.nameAt, "Give one of them another name.",
					"a sale named %s is declared already, at %s", name, first)
			} else {
				l.named[name] = fmt.Sprintf("%s:%d", src.name, found.nameAt.Line)
			}
		}
		problems := d.finish()
		for _, p := range problems {
			if reported++; reported > maxProblems {
				l.fail(&Problem{File: p.File, Line: p.Line, Column: p.Column, Source: p.Source,
					Message: fmt.Sprintf("there are more than %d problems", maxProblems), Remedy: "Correct those above first."})
				break
			}
			l.fail(p)
		}
		if len(problems) == 0 {
			l.sales = append(l.sales, found.sale)
		}
	}
}

// Unreadable returns the problem of a file or folder that could not be read.
func Unreadable(path string, err error) *Problem {
	failed := files.Explain(path, err)
	return &Problem{File: path, Message: failed.Why, Remedy: failed.Remedy, Cause: err}
}
