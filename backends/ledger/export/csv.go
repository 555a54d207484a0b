package export

import (
	"context"
	"encoding/csv"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// csvColumns are the columns of WriteCSV.
var csvColumns = []string{
	"claim", "sale", "user", "state", "units", "quantity", "amount", "currency", "payment",
	"at", "held_until", "settled_at", "retired", "who", "why", "refund_due", "returned",
}

// WriteCSV writes the claims that match f as a table for bookkeeping, in the order of an export:
// RFC 4180, with a header row after a byte order mark, without which spreadsheets misread UTF-8.
// The table proves nothing, and has neither keys of requests nor payloads of units. Ids, and texts
// that others have chosen, are escaped by safe.
func (s Sale) WriteCSV(ctx context.Context, f Filter, to io.Writer) error {
	x, err := s.contents(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(to, "\ufeff"); err != nil {
		return err
	}
	w := csv.NewWriter(to)
	w.UseCRLF = true
	if err := w.Write(csvColumns); err != nil {
		return err
	}
	for shard, c := range claims(s.Shards, f) {
		if err := w.Write(x.csvRow(x.claimLine(shard, c))); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func (x *contents) csvRow(c Claim) []string {
	units := make([]string, len(c.Units))
	for i, unit := range c.Units {
		units[i] = strconv.FormatInt(unit, 10)
	}
	amount, currency := "", ""
	if p := x.packets; p != nil {
		amount, currency = p.Format(x.dealt.Sum(c.Units...)), p.Currency
	}
	retired := ""
	if c.Retired {
		retired = "true"
	}
	return []string{
		safe(c.Claim), safe(c.Sale), safe(c.User), c.State, strings.Join(units, " "), strconv.Itoa(len(units)), amount, currency, safe(c.Payment),
		c.At, c.HeldUntil, c.SettledAt, retired, safe(c.Who), safe(c.Why), safe(strings.Join(c.Owed(), "; ")), safe(strings.Join(c.PaidBack(), "; ")),
	}
}

// safe returns text in a form that no spreadsheet takes for a formula, or changes because it
// resembles a number or a date: users choose their ids, and payment services their references.
// A text that begins like a formula or with an apostrophe, or that may be changed, gets an
// apostrophe in front. Removing one apostrophe restores the text.
func safe(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r\n'＝＋－＠", []rune(text)[0]) || changed.MatchString(text) && !kept.MatchString(text) {
		return "'" + text
	}
	return text
}

// changed matches texts that spreadsheets turn into numbers, dates, times or truth values; kept
// matches numbers that they show unchanged, which 0042, 1e5, 4-2-0 and MAR-1 are not.
var (
	changed = regexp.MustCompile(`(?i)^([ .,]*[0-9]|(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[-. /]*[0-9]|(true|false)$)`)
	kept    = regexp.MustCompile(`^(0|[1-9][0-9]{0,14})$`)
)
