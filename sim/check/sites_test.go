package check

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources has this package's files: the test may run in another folder than its package's.
//
//go:embed *.go
var sources embed.FS

// reports returns where this package reports something, by the format of what it
// says.
func reports(t *testing.T) map[string]string {
	files, err := sources.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	set := token.NewFileSet()
	for _, file := range files {
		if strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		source, err := sources.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(set, file.Name(), source, 0)
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
			if name != "bad" {
				return true
			}
			at := fmt.Sprintf("%s:%d", file.Name(), set.Position(call.Pos()).Line)
			literal, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: what is reported has no fixed format", at)
				return true
			}
			format, err := strconv.Unquote(literal.Value)
			if err != nil || all[format] != "" {
				t.Errorf("%s says %q like %s, %v", at, format, all[format], err)
			}
			all[format] = at
			return true
		})
	}
	return all
}

// said returns, by checker, the formats of what is reported of a history.
func said(h *History) map[string][]string {
	formats := make(map[string][]string)
	e := &evidence{h: h}
	for _, c := range checkers {
		c.judge(e, func(format string, _ ...any) {
			if !slices.Contains(formats[c.name], format) {
				formats[c.name] = append(formats[c.name], format)
			}
		})
	}
	return formats
}

// Every report has a planted fault of which its checker says nothing else: if the
// report were left out, the checker would be silent, and TestPlantedFaults fail.
func TestEveryReportIsNeeded(t *testing.T) {
	needed := make(map[string]bool)
	for _, f := range plantedFaults() {
		w := f.from(t)
		f.do(w)
		for _, formats := range said(w.h) {
			if len(formats) == 1 {
				needed[formats[0]] = true
			}
		}
	}
	all := reports(t)
	for format, at := range all {
		if !needed[format] {
			t.Errorf("%s: no planted fault needs the report %q", at, format)
		}
	}
	if len(all) < 99 {
		t.Errorf("only %d reports were found", len(all))
	}
}
