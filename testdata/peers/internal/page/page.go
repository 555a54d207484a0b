// Package page writes what was measured into the pages of the docs.
package page

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Made are the lines of a page between which its text is made by a program.
type Made struct{ Begins, Ends string }

// By are the lines around what a command in testdata/peers makes.
func By(command string) Made {
	return Made{"<!-- Made by testdata/peers: " + command + " -->\n", "<!-- The end of what is made -->\n"}
}

// Renew puts text between the lines of a page.
func (m Made) Renew(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	renewed, err := m.Replace(old, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, renewed, 0o644)
}

// Replace returns the page with text between the lines.
func (m Made) Replace(page []byte, text string) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(m.Begins))
	_, after, ended := bytes.Cut(rest, []byte(m.Ends))
	if !ok || !ended {
		return nil, fmt.Errorf("it has no line %q, with %q below", strings.TrimSpace(m.Begins), strings.TrimSpace(m.Ends))
	}
	return slices.Concat(before, []byte(m.Begins+text+m.Ends), after), nil
}

// Rounded keeps so many digits.
func Rounded(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return math.NaN()
	}
	return r
}

// Grouped is a number, from 1,000 on with commas between thousands.
func Grouped(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	s := strconv.FormatInt(int64(math.Round(v)), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
