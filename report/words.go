package report

import (
	"fmt"
	"strings"
	"time"

	"salectl/report/threshold"
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

func seconds(f float64) string { return lasting(time.Duration(f * float64(time.Second))) }

// sentence formats words as a sentence.
func sentence(words string) string { return strings.ToUpper(words[:1]) + words[1:] + "." }

// clock formats a time, with milliseconds if it has any.
func clock(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond() >= int(time.Millisecond) {
		return t.Format("2006-01-02 15:04:05.000 UTC")
	}
	return t.Format("2006-01-02 15:04:05 UTC")
}

// lasting formats a duration.
func lasting(d time.Duration) string {
	if d >= time.Hour {
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return threshold.Milliseconds(float64(d) / float64(time.Millisecond))
}
