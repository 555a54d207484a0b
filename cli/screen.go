package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// frame is text that is to appear on a stream later, in the colours of that stream.
type frame struct {
	bytes.Buffer
	on io.Writer
}

// What a terminal is told: the codes that xterm has, and all that are in use.
const (
	// screenBegins opens a second screen, so that the first one is as it was at the end, hides
	// the cursor, and cuts lines that are too long rather than folding them.
	screenBegins = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenEnds   = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	cursorHome   = "\x1b[H"
	clearLine    = "\x1b[K" // from the cursor on
	clearBelow   = "\x1b[J"
)

// screen draws one text after another in the same place of a terminal. Its methods are safe
// for concurrent use.
type screen struct {
	to io.Writer // a terminal

	mu           sync.Mutex
	begun, ended bool
}

// draw replaces what is on the screen. Lines that do not fit below are counted.
func (s *screen) draw(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if _, rows := size(s.to); len(lines) > rows {
		left := len(lines) - (rows - 1)
		lines = append(lines[:rows-1:rows-1], fmt.Sprintf("… %s below: a taller window shows them, or a pipe", count(left, "line")))
	}
	begin := ""
	if !s.begun {
		s.begun, begin = true, screenBegins
	}
	_, err := fmt.Fprint(s.to, begin+cursorHome+strings.Join(lines, clearLine+"\n")+clearLine+clearBelow)
	return err
}

// end gives the terminal back as it was. It may be called again.
func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun && !s.ended {
		fmt.Fprint(s.to, screenEnds)
	}
	s.ended = true
}
