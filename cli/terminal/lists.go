package terminal

import (
	"fmt"
	"io"

	"salectl/spec"
)

// FoldBeyond is the number of similar items in a list above which they are folded, unless
// --all is given.
const FoldBeyond = 20

// ListsAll prints how to list folded items.
func ListsAll(w io.Writer, c Palette, what string) {
	fmt.Fprintf(w, "  %s\n", c.Dim(fmt.Sprintf("--all lists every %s", what)))
}

// WriteSome prints a line with a mark for each text, at most FoldBeyond lines unless all is
// set.
func WriteSome(w io.Writer, mark string, texts []string, noun string, all bool) {
	shown := texts
	if !all && len(texts) > FoldBeyond {
		shown = texts[:FoldBeyond]
	}
	for _, text := range shown {
		fmt.Fprintf(w, "  %s %s\n", mark, text)
	}
	if left := len(texts) - len(shown); left > 0 {
		fmt.Fprintf(w, "  %s and %s, which --all lists\n", mark, spec.Count(left, "more "+noun))
	}
}

// WriteWarnings prints warnings that are part of an answer.
func WriteWarnings(w io.Writer, c Palette, warnings []string, all bool) {
	WriteSome(w, c.Yellow("!"), warnings, "warning", all)
}
