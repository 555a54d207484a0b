package report

import (
	"strings"
	"time"

	"salectl/spec"
)

// count formats a number with the matching words.
func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return spec.Grouped(n) + " " + many
}

func was(n int64, noun string) string { return strings.TrimSpace(count(n, noun+" was", noun+"s were")) }

func are(n int64) string { return count(n, "unit is", "units are") }

// sentence formats words as a sentence.
func sentence(words string) string { return strings.ToUpper(words[:1]) + words[1:] + "." }

// clock formats a time, with milliseconds if it has any.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999 UTC") }
