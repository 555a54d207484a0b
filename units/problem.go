package units

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/hashicorp/go-multierror"

	"salectl/spec"
)

// maxProblems is how many problems of a declaration are told at once.
const maxProblems = 10

// problems are what is wrong with a declaration: the first of them, and how many more.
type problems struct {
	file string
	all  []*spec.Problem
	more int64
}

func (s *Source) problems() *problems {
	if s.units.FromFile {
		return &problems{file: s.units.File}
	}
	return &problems{file: s.sale}
}

// refuse is a csvfile.Refuse that reads on.
func (p *problems) refuse(line, column int, remedy, message string, args ...any) error {
	if len(p.all) == maxProblems {
		p.more++
		return nil
	}
	p.all = append(p.all, &spec.Problem{File: p.file, Line: line, Column: column, Message: fmt.Sprintf(message, args...), Remedy: remedy})
	return nil
}

func (p *problems) any() bool { return len(p.all) > 0 }

// err is nil if there is no problem.
func (p *problems) err() error {
	if len(p.all) == 0 {
		return nil
	}
	slices.SortStableFunc(p.all, func(a, b *spec.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := &multierror.Error{ErrorFormat: spec.ErrorFormat}
	for _, problem := range p.all {
		all.Errors = append(all.Errors, problem)
	}
	if p.more > 0 {
		all.Errors = append(all.Errors, &spec.Problem{File: p.file,
			Message: fmt.Sprintf("it has %s", spec.Count(p.more, "more problem")), Remedy: "Correct those above first."})
	}
	return all
}
