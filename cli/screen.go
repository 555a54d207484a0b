package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// frame is text to be printed on a stream later, in the colours of that stream.
type frame struct {
	bytes.Buffer
	on io.Writer
}

// Control sequences of xterm, which all terminals in use support.
const (
	// screenBegins opens the alternate screen, which preserves the first one, hides the
	// cursor, and truncates long lines instead of folding them.
	screenBegins = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenEnds   = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	cursorHome   = "\x1b[H"
	clearLine    = "\x1b[K" // after the cursor
	clearBelow   = "\x1b[J"
)

// screen draws texts successively at the same place of a terminal. Its methods are safe for
// concurrent use.
type screen struct {
	to io.Writer // terminal

	mu           sync.Mutex
	begun, ended bool
}

// draw replaces the content of the screen. It counts lines that do not fit below.
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

// end restores the terminal. It may be called repeatedly.
func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun && !s.ended {
		fmt.Fprint(s.to, screenEnds)
	}
	s.ended = true
}
