package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

// boundary has for an ordered comparison the one that differs in equal values.
var boundary = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}

// arithmetic has for an operator what a mutant puts in its place, and the
// function of package mutation that is either.
var arithmetic = map[token.Token]struct {
	other    token.Token
	function string
}{
	token.ADD: {token.SUB, "Add"}, token.SUB: {token.ADD, "Sub"}, token.MUL: {token.QUO, "Mul"},
	token.QUO: {token.MUL, "Div"}, token.REM: {token.MUL, "Rem"},
}

// inverse has for an assignment its contrary.
var inverse = map[token.Token]token.Token{
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN,
	token.INC: token.DEC, token.DEC: token.INC,
}

// visit adds the mutants of one node; path is the node and all around it, the
// outermost first.
func (s *source) visit(path []ast.Node) {
	parent := path[len(path)-2]
	switch n := path[len(path)-1].(type) {
	case *ast.IfStmt:
		s.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil && !s.constant(n.Cond) {
			s.never(n.Cond) // one that always holds is an endless loop
		}
	case *ast.CaseClause:
		// The parent is the body of the switch.
		if sw, ok := path[len(path)-3].(*ast.SwitchStmt); ok && sw.Tag == nil {
			for _, e := range n.List {
				s.condition(e)
			}
		}
	case *ast.BinaryExpr:
		s.binary(n, parent)
	case *ast.UnaryExpr:
		if n.Op == token.NOT && plain(parent) {
			s.negate(n, s.text(n.X))
		}
	case *ast.Ident:
		if s.info.Uses[n] == types.Universe.Lookup("true") {
			s.add(n, "false", func(id int, _ string) string { return fmt.Sprintf("mutation.Off(%d)", id) })
		} else if s.info.Uses[n] == types.Universe.Lookup("false") {
			s.add(n, "true", func(id int, _ string) string { return fmt.Sprintf("mutation.On(%d)", id) })
		}
	case *ast.BranchStmt:
		s.branch(n, path)
	case ast.Stmt:
		if inList(n, parent) {
			s.statement(n, path)
		}
	}
}

// condition adds that a condition always holds, and that it never does. Who
// finds that a part of it has no effect finds that, too, so that one of these is
// enough where there are parts; and no test passes when there is always an error.
func (s *source) condition(e ast.Expr) {
	n, _ := e.(*ast.BinaryExpr)
	if s.constant(e) {
		return
	}
	if n == nil || n.Op != token.LOR {
		s.never(e)
	}
	if n == nil || n.Op != token.LAND && s.text(n) != "err != nil" {
		s.add(e, "true", func(id int, node string) string { return fmt.Sprintf("(mutation.On(%d) || (%s))", id, node) })
	}
}

func (s *source) never(e ast.Expr) {
	s.add(e, "false", func(id int, node string) string { return fmt.Sprintf("(mutation.Off(%d) && (%s))", id, node) })
}

func (s *source) binary(n *ast.BinaryExpr, parent ast.Node) {
	if s.constant(n) {
		return
	}
	left, right := s.text(n.X), s.text(n.Y)
	if n.Op == token.LAND || n.Op == token.LOR {
		s.either(n, left)
		s.either(n, right)
		return
	}
	if op, ok := boundary[n.Op]; ok {
		s.either(n, left+" "+op.String()+" "+right)
	}
	// What decides a branch is held to be true and false there.
	if isComparison(n.Op) && plain(parent) {
		s.negate(n, fmt.Sprintf("!(%s)", s.text(n)))
	}
	if op, ok := arithmetic[n.Op]; ok && s.numeric(n) {
		s.add(n, left+" "+op.other.String()+" "+right, nil)
		s.found[len(s.found)-1].operands = func(id int, text func(ast.Node) string) string {
			return fmt.Sprintf("mutation.%s(%d, %s, %s)", op.function, id, text(n.X), text(n.Y))
		}
	}
}

// either adds another expression for a boolean one.
func (s *source) either(n ast.Expr, other string) {
	s.add(n, other, func(id int, node string) string {
		return fmt.Sprintf("(mutation.On(%d) && (%s) || mutation.Off(%d) && (%s))", id, other, id, node)
	})
}

// negate adds the contrary of a boolean expression, which other describes.
func (s *source) negate(n ast.Expr, other string) {
	s.add(n, other, func(id int, node string) string { return fmt.Sprintf("(mutation.On(%d) != (%s))", id, node) })
}

// plain reports that a boolean expression is a value there: not a part of another
// one, nor what decides a branch. Those have mutants of their own.
func plain(parent ast.Node) bool {
	switch p := parent.(type) {
	case *ast.BinaryExpr:
		return p.Op != token.LAND && p.Op != token.LOR
	case *ast.UnaryExpr, *ast.IfStmt, *ast.ForStmt, *ast.ParenExpr, *ast.CaseClause:
		return false
	}
	return true
}

func isComparison(op token.Token) bool {
	return op == token.EQL || op == token.NEQ || boundary[op] != token.ILLEGAL
}

func (s *source) numeric(e ast.Expr) bool {
	basic, ok := s.info.TypeOf(e).Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsNumeric != 0
}

func (s *source) constant(e ast.Expr) bool { return s.info.Types[e].Value != nil }

// branch swaps break and continue where both are about the same loop.
func (s *source) branch(n *ast.BranchStmt, path []ast.Node) {
	if n.Label != nil || n.Tok != token.BREAK && n.Tok != token.CONTINUE {
		return
	}
	for i := len(path) - 2; i >= 0; i-- {
		switch around := path[i].(type) {
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			return // a break ends that, and a continue goes on behind it
		case *ast.ForStmt:
			if around.Cond == nil {
				return // a break would let the function end without a return
			}
		case *ast.RangeStmt:
		default:
			continue
		}
		break
	}
	other := token.BREAK
	if n.Tok == token.BREAK {
		other = token.CONTINUE
	}
	s.add(n, other.String(), func(id int, node string) string {
		return fmt.Sprintf("if mutation.On(%d) { %s } else { %s }", id, other, node)
	})
}

// statement adds that a statement is left out and, of an assignment that
// counts, that it counts the other way.
func (s *source) statement(n ast.Stmt, path []ast.Node) {
	switch n := n.(type) {
	case *ast.ExprStmt:
		if s.indispensable(n.X) {
			return
		}
	case *ast.DeferStmt:
		if s.indispensable(n.Call) {
			return
		}
	case *ast.IncDecStmt:
		s.instead(n, s.text(n.X)+inverse[n.Tok].String())
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE || blank(n.Lhs) {
			return
		}
		if op, ok := inverse[n.Tok]; ok && s.numeric(n.Lhs[0]) {
			s.instead(n, s.text(n.Lhs[0])+" "+op.String()+" "+s.text(n.Rhs[0]))
		}
	case *ast.SendStmt:
	default:
		return
	}
	if branch, ok := path[len(path)-3].(*ast.IfStmt); ok && branch.Else == nil && len(branch.Body.List) == 1 {
		return // as if the condition never held
	}
	s.add(n, "", func(id int, node string) string { return fmt.Sprintf("if mutation.Off(%d) { %s }", id, node) })
}

// instead adds another statement for one.
func (s *source) instead(n ast.Stmt, other string) {
	s.add(n, other, func(id int, node string) string {
		return fmt.Sprintf("if mutation.On(%d) { %s } else { %s }", id, other, node)
	})
}

// indispensable are calls that no mutant leaves out: what follows panic is not
// reached, and a forgotten lock is for the race detector, a forgotten unlock a
// standstill.
func (s *source) indispensable(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return true // <-done: without it the goroutine is at large
	}
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "panic"
	case *ast.SelectorExpr:
		switch f.Sel.Name {
		case "Lock", "Unlock", "RLock", "RUnlock":
			return true
		}
	}
	return false
}

func blank(all []ast.Expr) bool {
	for _, e := range all {
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

// inList reports that other statements may stand in a statement's place.
func inList(n ast.Stmt, parent ast.Node) bool {
	var list []ast.Stmt
	switch p := parent.(type) {
	case *ast.BlockStmt:
		list = p.List
	case *ast.CaseClause:
		list = p.Body
	case *ast.CommClause:
		list = p.Body
	}
	for _, one := range list {
		if one == n {
			return true
		}
	}
	return false
}
