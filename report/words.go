package report

import (
	"strings"
	"time"
)

// sentence formats words as a sentence.
func sentence(words string) string { return strings.ToUpper(words[:1]) + words[1:] + "." }

// clock formats a time, with milliseconds if it has any.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999 UTC") }
