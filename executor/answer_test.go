package executor

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// constantsOf returns the names of the constants in a file of this folder, but for
// those that leaveOut says.
func constantsOf(t *testing.T, file string, leaveOut func(name string, of *ast.ValueSpec) bool) (names []string) {
	t.Helper()
	_, here, _, _ := runtime.Caller(0) // the test may run elsewhere
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(filepath.Dir(here), file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && !leaveOut(v.Names[0].Name, v) {
			names = append(names, v.Names[0].Name)
		}
		return true
	})
	slices.Sort(names)
	return names
}

// The executor has all outcomes of the API, under their names, and no others.
func TestOutcomesAreThoseOfTheAPI(t *testing.T) {
	theirs := constantsOf(t, "../api/outcome.go", func(name string, of *ast.ValueSpec) bool {
		kind, ok := of.Type.(*ast.Ident)
		return !ok || kind.Name != "Outcome" || name == "Replayed"
	})
	ours := constantsOf(t, "answer.go", func(name string, of *ast.ValueSpec) bool {
		selected, ok := of.Values[0].(*ast.SelectorExpr)
		return !ok || selected.X.(*ast.Ident).Name != "api" || selected.Sel.Name != name
	})
	if all := constantsOf(t, "answer.go", func(string, *ast.ValueSpec) bool { return false }); !slices.Equal(ours, theirs) || !slices.Equal(ours, all) {
		t.Errorf("the executor has the outcomes %q, of all constants %q; the API has %q", ours, all, theirs)
	}
}
