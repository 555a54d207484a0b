package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal says whether a person looks at a stream.
func isTerminal(stream any) bool {
	if a, ok := stream.(*answer); ok {
		stream = a.w
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width is how many columns a stream has, 80 if it does not say.
func width(stream any) int {
	if f, ok := stream.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}

// palette colours words, or leaves them alone.
type palette bool

// colours returns the palette for one of the two output streams. Even where
// standard error alone is a terminal there is no colour: whoever redirects the
// answer often keeps both.
func (p *program) colours(w io.Writer) palette {
	if value, set := p.env("NO_COLOR"); set && value != "" {
		return false
	}
	if kind, _ := p.env("TERM"); kind == "dumb" {
		return false
	}
	return palette(isTerminal(p.out) && isTerminal(w))
}

func (c palette) paint(code, s string) string {
	if !c || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (c palette) red(s string) string    { return c.paint("31", s) }
func (c palette) green(s string) string  { return c.paint("32", s) }
func (c palette) yellow(s string) string { return c.paint("33", s) }
func (c palette) bold(s string) string   { return c.paint("1", s) }
func (c palette) dim(s string) string    { return c.paint("2", s) }
