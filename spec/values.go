package spec

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Forms of values, for both the decoder and the JSON Schema. They use the common subset of
// Go's and JavaScript's regular expressions.
const (
	nameForm      = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	timeForm      = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$`
	termForm      = `^(0|[1-9][0-9]*)(h|m|s|ms)$`
	addressForm   = `^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$`
	envForm       = `^[A-Z_][A-Z0-9_]*$`
	znodeForm     = `^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`
	tableForm     = `^([A-Za-z0-9_]+:)?[A-Za-z0-9_][A-Za-z0-9_.-]*$`
	usersFileForm = `[.]([cC][sS][vV]|[nN][dD][jJ][sS][oO][nN]|[jJ][sS][oO][nN][lL])$`
	familyForm    = `^[A-Za-z0-9_-][A-Za-z0-9_.-]*$`

	identifierForm = `^[a-zA-Z_][a-zA-Z0-9_]*$`
)

var (
	timeRE     = regexp.MustCompile(timeForm)
	zonelessRE = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ]+[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.][0-9]*)?)?)?$`)
	termRE     = regexp.MustCompile(`^[0-9]+(h|m|s|ms)$`)
	addressRE  = regexp.MustCompile(addressForm)
	envRE      = regexp.MustCompile(envForm)
	tableRE    = regexp.MustCompile(tableForm)

	identifierRE = regexp.MustCompile(identifierForm)
	digitsRE     = regexp.MustCompile(`^[0-9]+$`)
)

// ParseTime parses an RFC 3339 time of any year; time.Parse accepts some invalid ones.
func ParseTime(text string) (time.Time, error) {
	if !timeRE.MatchString(text) {
		return time.Time{}, errors.New("is no RFC 3339 time")
	}
	return time.Parse(time.RFC3339Nano, text)
}

// readTime parses a time. The years are bounded, since a typing error of one digit is likelier
// than a sale in another millennium. Shards store microseconds: a finer time would differ from
// theirs in every plan.
func readTime(text string) (time.Time, *fault) {
	const write = "Write date, T, time with seconds, and zone, such as 2026-11-11T20:00:00+08:00, or with Z for UTC."
	if !timeRE.MatchString(text) {
		if zonelessRE.MatchString(text) {
			return time.Time{}, &fault{"has no zone, so that nobody knows when it is", write}
		}
		return time.Time{}, &fault{"is no RFC 3339 time", write}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, &fault{"is a time that does not exist", "Check the day, the hour and the zone."}
	}
	if t = t.UTC().Truncate(time.Microsecond); t.Year() < 2000 || t.Year() > 2999 {
		return time.Time{}, &fault{"lies outside of the years 2000 to 2999", "Check the year."}
	}
	return t, nil
}

// readTerm parses a duration in [least, most].
func readTerm(text, example string, least, most time.Duration) (time.Duration, *fault) {
	write := fmt.Sprintf("Write a whole number and one unit, which is h, m, s or ms, such as %s.", example)
	switch {
	case digitsRE.MatchString(text):
		return 0, &fault{"has no unit", fmt.Sprintf("Write the unit, such as %s.", example)}
	case !termRE.MatchString(text):
		return 0, &fault{"is no duration", write}
	case text[0] == '0' && text[1] >= '0' && text[1] <= '9':
		return 0, &fault{"begins with a zero", write}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		from, to := FormatTerm(least), FormatTerm(most)
		return 0, &fault{fmt.Sprintf("is outside of %s to %s", from, to), fmt.Sprintf("Write a duration from %s to %s, such as %s.", from, to, example)}
	}
	return d, nil
}

// FormatTerm formats a duration as in a sale file: a whole number of the largest possible
// unit, such as 24h, 90m or 1500ms.
func FormatTerm(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if d != 0 && d%unit.length == 0 {
			return strconv.FormatInt(int64(d/unit.length), 10) + unit.name
		}
	}
	return d.String() // 0s, or a fraction of a millisecond, which no sale file has
}

// ParseAddress parses host:port and returns its canonical form, which is equal for equal
// addresses.
func ParseAddress(text string) (string, error) {
	address, f := readAddress(text)
	if f != nil {
		return "", errors.New(f.message)
	}
	return address, nil
}

// readAddress parses host:port and returns its canonical form.
func readAddress(text string) (string, *fault) {
	const write = "Write host:port, such as 127.0.0.1:6379."
	switch {
	case strings.Contains(text, "@"):
		return "", &fault{"has a user or a password in it", "Write host:port, and the credentials by usernameEnv and passwordEnv."}
	case strings.Contains(text, "/"):
		return "", &fault{"is a URL or a path, not host:port", write}
	case strings.Count(text, ":") > 1 && text[0] != '[':
		return "", &fault{"is an IPv6 address without brackets", "Write [address]:port, such as [::1]:6379."}
	case !addressRE.MatchString(text):
		if !strings.Contains(text, ":") {
			return "", &fault{"has no port", write}
		}
		return "", &fault{"is not host:port", write}
	}
	at := strings.LastIndex(text, ":")
	port, _ := strconv.Atoi(text[at+1:]) // at most five digits
	if port < 1 || port > 65535 {
		return "", &fault{"has a port outside of 1 to 65535", write}
	}
	host, f := readHost(text[:at])
	return fmt.Sprintf("%s:%d", host, port), f
}

func readHost(host string) (string, *fault) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		ip, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		switch {
		case err != nil:
			return "", &fault{"has no valid IP address in its brackets", "Check the address."}
		case ip.Unmap().Is4():
			return ip.Unmap().String(), nil
		}
		return "[" + ip.String() + "]", nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String(), nil
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || len(host) > 253 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", &fault{"has no valid host name", "Check the name."}
		}
	}
	if digitsRE.MatchString(labels[len(labels)-1]) {
		return "", &fault{"has no valid IP address", "Check the address."}
	}
	return host, nil
}

// checkEnv returns the fault of an invalid name of an environment variable. Lower case is
// rejected: passwords often have it, names of variables rarely.
func checkEnv(text string) *fault {
	if envRE.MatchString(text) {
		return nil
	}
	if name := strings.Trim(text, "${}"); name != text && envRE.MatchString(name) {
		return &fault{"has a $ or braces around the name", "Write the name alone."}
	}
	return &fault{"is not the name of an environment variable, and may be the secret itself",
		"Put the secret into an environment variable and write its name here, in capitals, such as REDIS_PASSWORD. " +
			"If it was the secret, change it: it has been in a file."}
}

// readTable parses the name of an HBase table. Like HBase, it omits the default namespace.
func readTable(text string) (string, *fault) {
	switch {
	case !tableRE.MatchString(text):
		return "", &fault{"is no table name that HBase takes", "Use letters, digits, and _ . - behind the first; a namespace before it with a colon."}
	case strings.HasPrefix(text, "hbase:"):
		return "", &fault{"lies in HBase's own namespace", "Use another namespace, or none."}
	}
	return strings.TrimPrefix(text, "default:"), nil
}

// checkPath returns the fault of an invalid path of a file or folder.
func checkPath(text, what, example string) *fault {
	write := fmt.Sprintf("Write the name of a %s, such as %s.", what, example)
	switch {
	case strings.TrimSpace(text) == "":
		return &fault{"is blank", write}
	case strings.ContainsFunc(text, unicode.IsControl):
		return &fault{"has a control character in it", write}
	case strings.HasPrefix(text, "~"):
		return &fault{"begins with ~, which only a shell expands", "Write the path out."}
	}
	return nil
}

// Duration is a duration of whole milliseconds: text such as 90m in a document, and a number
// of milliseconds in JSON.
type Duration time.Duration

// String returns the duration as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalYAML returns the form of a document.
func (d Duration) MarshalYAML() (any, error) { return FormatTerm(time.Duration(d)), nil }

// MarshalJSON returns the number of milliseconds.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(d).Milliseconds(), 10), nil
}

// UnmarshalJSON reads a number of milliseconds.
func (d *Duration) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("%s is no number of milliseconds", text)
	}
	if longest := math.MaxInt64 / int64(time.Millisecond); ms > longest || ms < -longest {
		return fmt.Errorf("%d milliseconds are too long", ms)
	}
	*d = Duration(ms) * Duration(time.Millisecond)
	return nil
}

// Bounds and default of a lock's ttl.
const (
	MaxLockTTL     = Duration(10 * time.Second)
	DefaultLockTTL = Duration(3 * time.Second)
)
