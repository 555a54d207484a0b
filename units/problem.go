package units

import (
	"fmt"

	"salectl/spec"
)

// maxProblems is the maximum number of problems of a declaration that are reported.
const maxProblems = 10

// problems are the first problems of a declaration, and the number of further ones.
type problems struct {
	file string
	all  []error
	more int64
}

func (s *Source) problems() *problems {
	if s.units.FromFile {
		return &problems{file: s.units.File}
	}
	return &problems{file: s.sale}
}

// refuse is a csvfile.Refuse that records the problem and continues.
func (p *problems) refuse(line, column int, remedy, message string, args ...any) error {
	if len(p.all) == maxProblems {
		p.more++
		return nil
	}
	p.all = append(p.all, &spec.Problem{File: p.file, Line: line, Column: column, Message: fmt.Sprintf(message, args...), Remedy: remedy})
	return nil
}

func (p *problems) any() bool { return len(p.all) > 0 }

// err returns the problems as an error, nil if there is none.
func (p *problems) err() error {
	if p.more == 0 {
		return spec.Join(p.all)
	}
	return spec.Join(p.all, &spec.Problem{File: p.file,
		Message: fmt.Sprintf("it has %s", spec.Count(p.more, "more problem")), Remedy: "Correct those above first."})
}
