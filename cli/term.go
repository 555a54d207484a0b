package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := fileOf(stream)
	return ok && term.IsTerminal(int(f.Fd()))
}

// fileOf returns the file to which a stream writes, now or later.
func fileOf(stream any) (*os.File, bool) {
	switch s := stream.(type) {
	case *os.File:
		return s, true
	case *answer:
		return fileOf(s.w)
	case *frame:
		return fileOf(s.on)
	}
	return nil, false
}

// size returns the columns and rows of a stream, 80 and 24 if they are unknown.
func size(stream any) (columns, rows int) {
	if f, ok := fileOf(stream); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return 80, 24
}

// width returns the columns of a stream.
func width(stream any) int {
	columns, _ := size(stream)
	return columns
}

// palette colours words if it is true.
type palette bool

// colours returns the palette for one of the two output streams. Unless colours are forced,
// there are none if only standard error is a terminal: a redirected answer is often kept with
// it.
func (p *program) colours(w io.Writer) palette {
	if forced, on := colourForced(p.env); forced {
		return palette(on)
	}
	return palette(isTerminal(p.out) && isTerminal(w))
}

// colourForced reports whether the environment determines colours regardless of the streams,
// and how. The customary variables count in this order: NO_COLOR (no-color.org), FORCE_COLOR
// (force-color.org; 0 is off, as in Node.js), CLICOLOR_FORCE and CLICOLOR
// (bixense.com/clicolors), TERM. Empty variables are ignored.
func colourForced(env func(string) (string, bool)) (forced, on bool) {
	get := func(name string) string { value, _ := env(name); return value }
	switch force, clicolorForce := get("FORCE_COLOR"), get("CLICOLOR_FORCE"); {
	case get("NO_COLOR") != "":
		return true, false
	case force != "":
		return true, force != "0" && force != "false"
	case clicolorForce != "" && clicolorForce != "0":
		return true, true
	case get("CLICOLOR") == "0", get("TERM") == "dumb":
		return true, false
	}
	return false, false
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
