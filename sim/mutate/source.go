package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one small change of a file.
type mutant struct {
	id       int    // what switches it on
	file     string // from the root of the repository
	line     int
	function string // that it is in, such as Machine.renew
	was, is  string // the source; is "": the statement is left out
	again    int    // how many of the same name the function has before it

	from, to int // offsets of the node
	// One of these writes the node so that it is as before and, while the mutant
	// is on, as the mutant has it.
	around   func(id int, node string) string
	operands func(id int, text func(ast.Node) string) string
}

// name identifies a mutant. It stays the same when lines move.
func (m mutant) name() string {
	is := m.is
	if is == "" {
		is = "nothing"
	}
	name := fmt.Sprintf("%s %s: %s → %s", m.file, m.function, m.was, is)
	if m.again > 0 {
		name += fmt.Sprintf(" #%d", m.again+1)
	}
	return name
}

func (m mutant) String() string {
	at := fmt.Sprintf("%s:%d", m.file, m.line)
	return at + strings.TrimPrefix(m.name(), m.file)
}

// source is a file whose mutants are sought.
type source struct {
	name     string // from the root of the repository
	code     []byte
	fset     *token.FileSet
	info     *types.Info
	function string // that the walk is in
	found    []mutant
}

// pkg is a package whose code has mutants.
type pkg struct {
	folder string // from the root of the repository
	files  []*source
}

// loadPackage finds the mutants of a package.
func loadPackage(root string, l listed, imports types.Importer) (pkg, error) {
	folder, err := filepath.Rel(root, l.Dir)
	if err != nil {
		return pkg{}, err
	}
	p, fset := pkg{folder: filepath.ToSlash(folder)}, token.NewFileSet()
	var trees []*ast.File
	for _, name := range l.GoFiles {
		code, err := os.ReadFile(filepath.Join(l.Dir, name))
		if err != nil {
			return pkg{}, err
		}
		tree, err := parser.ParseFile(fset, name, code, parser.SkipObjectResolution)
		if err != nil {
			return pkg{}, err
		}
		trees = append(trees, tree)
		p.files = append(p.files, &source{name: p.folder + "/" + name, code: code, fset: fset})
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: imports}
	if _, err := config.Check(l.ImportPath, fset, trees, info); err != nil {
		return pkg{}, err
	}
	for i, s := range p.files {
		s.info = info
		s.walk(trees[i])
	}
	return p, nil
}

// walk visits each function of the file.
func (s *source) walk(tree *ast.File) {
	for _, d := range tree.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		s.function = f.Name.Name
		if f.Recv != nil {
			s.function = receiver(f.Recv.List[0].Type) + "." + s.function
		}
		path := []ast.Node{tree, f}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if n == nil {
				path = path[:len(path)-1]
				return true
			}
			path = append(path, n)
			s.visit(path)
			return true
		})
	}
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }

func (s *source) text(n ast.Node) string { return string(s.code[s.offset(n.Pos()):s.offset(n.End())]) }

// add adds a mutant that is written around a node.
func (s *source) add(n ast.Node, is string, around func(id int, node string) string) {
	s.found = append(s.found, mutant{
		file: s.name, function: s.function, was: oneLine(s.text(n)), is: oneLine(is),
		line: s.fset.Position(n.Pos()).Line, from: s.offset(n.Pos()), to: s.offset(n.End()), around: around,
	})
}

// oneLine is source as a line that can be read.
func oneLine(text string) string {
	const most = 90
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > most {
		return string(line[:most-1]) + "…"
	}
	return string(line)
}

// number gives the mutants of all packages their numbers, in the order of the
// source, and numbers those of one name.
func number(all []pkg) (mutants []mutant) {
	for _, p := range all {
		for _, s := range p.files {
			slices.SortStableFunc(s.found, func(a, b mutant) int { return cmp.Compare(a.from, b.from) })
			names := map[string]int{}
			for i := range s.found {
				m := &s.found[i]
				name := m.name()
				m.id, m.again = len(mutants)+1, names[name]
				names[name]++
				mutants = append(mutants, *m)
			}
		}
	}
	return mutants
}

// written is the file with all its mutants in it.
func (s *source) written() string {
	text := s.render(0, len(s.code), s.found)
	at := packageClause.FindStringIndex(text)[1]
	return text[:at] + `; import "salectl/sim/mutate/mutation"` + text[at:]
}

var packageClause = regexp.MustCompile(`(?m)^package \w+`)

// render is the source between two offsets with the mutants that are in it.
func (s *source) render(from, to int, in []mutant) string {
	in = slices.DeleteFunc(slices.Clone(in), func(m mutant) bool { return m.from < from || m.to > to })
	var out strings.Builder
	for len(in) > 0 {
		// The outermost of those that begin first; there may be several of one node.
		first := slices.MinFunc(in, func(a, b mutant) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
		var here, inner []mutant
		for _, m := range in {
			if m.from == first.from && m.to == first.to {
				here = append(here, m)
			} else if m.to <= first.to {
				inner = append(inner, m)
			}
		}
		out.Write(s.code[from:first.from])
		out.WriteString(s.renderNode(here, inner))
		from = first.to
		in = slices.DeleteFunc(in, func(m mutant) bool { return m.from < from })
	}
	out.Write(s.code[from:to])
	return out.String()
}

// renderNode is a node with its mutants, one around the other.
func (s *source) renderNode(here, inner []mutant) string {
	var text string
	if split := here[0].operands; split != nil { // it has no other
		return split(here[0].id, func(n ast.Node) string { return s.render(s.offset(n.Pos()), s.offset(n.End()), inner) })
	}
	text = s.render(here[0].from, here[0].to, inner)
	for _, m := range here {
		text = m.around(m.id, text)
	}
	return text
}
