package terminal

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"salectl/spec"
)

// Frame is text to be printed on a stream later, in the colours of that stream.
type Frame struct {
	bytes.Buffer
	On io.Writer
}

// Control sequences of xterm, which all terminals in use support.
const (
	// ScreenBegins opens the alternate screen, which preserves the first one, hides the
	// cursor, and truncates long lines instead of folding them.
	ScreenBegins = "\x1b[?1049h\x1b[?25l" + foldsNot
	ScreenEnds   = folds + "\x1b[?25h\x1b[?1049l"
	CursorHome   = "\x1b[H"
	clearLine    = "\x1b[K" // after the cursor
	clearBelow   = "\x1b[J"
	foldsNot     = "\x1b[?7l" // truncate long lines
	folds        = "\x1b[?7h"
)

// PrintBriefly prints a text, as far as the terminal has rows, until erase is called. It truncates long lines.
func PrintBriefly(to io.Writer, text string) (erase func()) {
	lines := strings.SplitAfter(text, "\n")
	if _, rows := Size(to); len(lines) > rows-1 {
		lines = lines[:max(rows-1, 0)]
	}
	shown := strings.Join(lines, "")
	fmt.Fprint(to, foldsNot+shown+folds)
	return func() {
		if n := strings.Count(shown, "\n"); n > 0 {
			fmt.Fprintf(to, "\x1b[%dA\r%s", n, clearBelow)
		}
	}
}

// Screen draws texts successively at the same place of a terminal. Its methods are safe for
// concurrent use.
type Screen struct {
	To io.Writer // terminal

	mu           sync.Mutex
	begun, ended bool
}

// Draw replaces the content of the screen. It counts lines that do not fit below.
func (s *Screen) Draw(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if _, rows := Size(s.To); len(lines) > rows {
		left := len(lines) - (rows - 1)
		lines = append(lines[:rows-1:rows-1], fmt.Sprintf("… %s below: a taller window shows them, or a pipe", spec.Count(left, "line")))
	}
	begin := ""
	if !s.begun {
		s.begun, begin = true, ScreenBegins
	}
	_, err := fmt.Fprint(s.To, begin+CursorHome+strings.Join(lines, clearLine+"\n")+clearLine+clearBelow)
	return err
}

// End restores the terminal. It may be called repeatedly.
func (s *Screen) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun && !s.ended {
		fmt.Fprint(s.To, ScreenEnds)
	}
	s.ended = true
}
