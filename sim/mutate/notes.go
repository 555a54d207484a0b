package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// The notes on survivors are lines in pairs: the name of a mutant and, indented,
// its note. "same:" has the reason why the mutant is equivalent to the
// original, "open:" why no test finds it.

// notes are, by the name of a mutant, what is noted of it.
type notes map[string]note

type note struct {
	same bool // as the original, in all that can be observed
	why  string
}

// readNotes reads the notes. It fails if one is of a mutant that there is not:
// the code has changed under it.
func readNotes(file string, mutants []mutant) (notes, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, m := range mutants {
		names[m.name()] = true
	}
	all, name, at := notes{}, "", 0
	var wrong []error
	complain := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s:%d: "+format, append([]any{file, at}, args...)...))
	}
	for line := range strings.Lines(string(text)) {
		at++
		text := strings.TrimSpace(line)
		kind, why, _ := strings.Cut(text, ": ")
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
		case line[0] != ' ' && line[0] != '\t':
			if name = text; !names[name] {
				complain("there is no such mutant: write the note anew or remove it")
			}
		case name == "":
			complain("a note without a mutant above it")
		case why == "" || kind != "same" && kind != "open":
			complain("a note begins with same: or open: and has a reason")
		default:
			all[name], name = note{kind == "same", why}, ""
		}
	}
	return all, errors.Join(wrong...)
}
