package audit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// allowed is all of package ledger that the audit may use: what a log is and how it is read, what
// the sale's own log has planned, sets of units, and the values that are compared. How the program
// folds and decides a shard (State, NewState, Draft, Writer) is not in it: the audit's book must be
// an account of its own.
var allowed = strings.Fields(`
	Logs Load LoadUntil EachShard FoldTogether Wait MissingTries MissingPause ErrCorrupt ErrGone NoSale
	Tail NewTail Hash Head ParseHead
	Sale NewSale Added RedPacket DeclaredRedPacket
	Range Units UnitsOf
	Claim Outcomes Returned AttributesLen FormatTime
	DrawResult NewDrawResult ReadDrawHeads DrawShard`)

// TestIndependence finds what of package ledger the audit uses.
func TestIndependence(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if strings.HasSuffix(i.Path.Value, `/ledger"`) && i.Name != nil {
				t.Errorf("%s imports package ledger as %s", f.Name(), i.Name)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if of, ok := s.X.(*ast.Ident); ok && of.Name == "ledger" {
					used = append(used, s.Sel.Name)
				}
			}
			return true
		})
	}
	for _, name := range used {
		if !slices.Contains(allowed, name) {
			t.Errorf("package audit uses ledger.%s", name)
		}
	}
	for _, name := range allowed {
		if !slices.Contains(used, name) {
			t.Errorf("package audit does not use ledger.%s any more: take it off the list", name)
		}
	}
}
