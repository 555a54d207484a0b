package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// site is a place in this package where something is reported.
type site struct {
	file        string
	first, last int // lines
	format      string
}

func (s site) String() string { return fmt.Sprintf("%s:%d: %s", s.file, s.first, s.format) }

// reports returns all places where this package reports something.
func reports(t *testing.T) (all []site) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			if name == "bad" {
				format, _ := call.Args[0].(*ast.BasicLit)
				all = append(all, site{file, set.Position(call.Pos()).Line, set.Position(call.End()).Line, format.Value})
			}
			return true
		})
	}
	return all
}

// judge returns, by checker, the lines from which a history's problems are
// reported.
func judge(h *History) map[string][]string {
	lines := make(map[string][]string)
	e := &evidence{h: h}
	for _, c := range checkers {
		c.judge(e, func(string, ...any) {
			_, file, line, _ := runtime.Caller(1)
			at := fmt.Sprintf("%s:%d", filepath.Base(file), line)
			if !slices.Contains(lines[c.name], at) {
				lines[c.name] = append(lines[c.name], at)
			}
		})
	}
	return lines
}

// Every report has a planted fault of which its checker says nothing else: if the
// report were left out, the checker would be silent, and TestPlantedFaults fail.
func TestEveryReportIsNeeded(t *testing.T) {
	needed := make(map[string]bool)
	for _, f := range plantedFaults() {
		w := f.from(t)
		f.do(w)
		for _, lines := range judge(w.h) {
			if len(lines) == 1 {
				needed[lines[0]] = true
			}
		}
	}
	all := reports(t)
	for _, s := range all {
		found := false
		for line := s.first; line <= s.last; line++ {
			found = found || needed[fmt.Sprintf("%s:%d", s.file, line)]
		}
		if !found {
			t.Errorf("no planted fault needs %v", s)
		}
	}
	if len(all) < 99 {
		t.Errorf("only %d reports were found", len(all))
	}
}
