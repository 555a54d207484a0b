// Package terminal prints text for people: colours, tables, and screens that are drawn again.
//
// It guarantees that text of others cannot control the terminal, and that there are colours
// only where people see them. Callers choose what is printed.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := fileOf(stream)
	return ok && term.IsTerminal(int(f.Fd()))
}

// fileOf returns the file to which a stream writes, now or later.
func fileOf(stream any) (*os.File, bool) {
	switch s := stream.(type) {
	case *os.File:
		return s, true
	case *Answer:
		return fileOf(s.W)
	case *Frame:
		return fileOf(s.On)
	}
	return nil, false
}

// Size returns the columns and rows of a stream, 80 and 24 if they are unknown.
func Size(stream any) (columns, rows int) {
	if f, ok := fileOf(stream); ok {
		if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return 80, 24
}

// Palette colours words if it is true.
type Palette bool

// Colours returns the palette for w, one of the two output streams; out is standard output.
// Unless colours are forced, there are none if only standard error is a terminal: a redirected
// answer is often kept with it.
func Colours(env func(string) (string, bool), out, w io.Writer) Palette {
	if forced, on := colourForced(env); forced {
		return Palette(on)
	}
	return Palette(IsTerminal(out) && IsTerminal(w))
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

func (c Palette) paint(code, s string) string {
	if !c || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (c Palette) Red(s string) string    { return c.paint("31", s) }
func (c Palette) Green(s string) string  { return c.paint("32", s) }
func (c Palette) Yellow(s string) string { return c.paint("33", s) }
func (c Palette) Bold(s string) string   { return c.paint("1", s) }
func (c Palette) Dim(s string) string    { return c.paint("2", s) }

// Answer is standard output. It records a failed write, so that views need not check each
// line, and the program does not end with 0 on a full disk.
type Answer struct {
	W       io.Writer
	Written bool
	Err     error
}

func (a *Answer) Write(b []byte) (int, error) {
	if a.Err != nil {
		return 0, a.Err
	}
	text := b
	if IsTerminal(a.W) {
		text = []byte(Printable(string(b)))
	}
	_, err := a.W.Write(text)
	if a.Written, a.Err = true, err; err != nil {
		return 0, err
	}
	return len(b), nil
}
