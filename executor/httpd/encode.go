package httpd

import (
	"encoding/json"
	"strconv"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/shard"
	"salectl/spec"
)

// The answers to claims are put together by hand: that takes a tenth of what
// encoding/json takes (0.1 µs, no allocation, instead of 1 µs and five) on the
// one path that a whole crowd takes at once. What is asked for seldom goes
// through encoding/json.

// appendClaim appends one claim that was accepted as its buyer sees it: an api.Claim.
func appendClaim(b []byte, outcome api.Outcome, sale string, c *executor.Claim) []byte {
	b = appendString(append(b, `{"outcome":`...), string(outcome))
	b = append(appendID(append(b, `,"claim":"`...), c.ID), '"')
	b = appendString(append(b, `,"sale":`...), sale)
	b = appendString(append(b, `,"user":`...), c.User)
	b = append(b, `,"units":[`...)
	for i, unit := range c.Units {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, unit, 10)
	}
	b = append(b, ']')
	if c.Asked != 0 {
		b = strconv.AppendInt(append(b, `,"asked":`...), c.Asked, 10)
	}
	if c.Packets != nil {
		b = appendAmounts(b, c.Units, c.Packets)
	}
	if len(c.Payloads) > 0 {
		b = appendPayloads(b, c.Payloads)
	}
	if c.Undelivered {
		b = append(b, `,"undelivered":true`...)
	}
	b = appendTime(append(b, `,"at":`...), c.At)
	if !c.HeldUntil.IsZero() {
		b = appendTime(append(b, `,"heldUntil":`...), c.HeldUntil)
	}
	if c.Books != nil {
		b = appendBooks(b, c.Books)
	}
	return append(b, '}')
}

// appendBooks appends what is told to whoever looks a claim up.
func appendBooks(b []byte, books *shard.Books) []byte {
	if !books.SettledAt.IsZero() {
		b = appendTime(append(b, `,"settledAt":`...), books.SettledAt)
	}
	for _, text := range []struct{ name, value string }{{"who", books.Who}, {"why", books.Why}, {"payment", books.Payment}} {
		if text.value != "" {
			b = append(append(append(b, `,"`...), text.name...), `":`...)
			b = appendString(b, text.value)
		}
	}
	if books.Extended {
		b = append(b, `,"extended":true`...)
	}
	if books.Retired {
		b = append(b, `,"retired":true`...)
	}
	for i, payment := range books.RefundsDue {
		if i == 0 {
			b = append(b, `,"refundDue":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendString(b, payment)
	}
	if len(books.RefundsDue) > 0 {
		b = strconv.AppendInt(append(b, `],"refundsDue":`...), int64(books.Owed), 10)
	} else if books.Owed > 0 { // a page without any
		b = strconv.AppendInt(append(b, `,"refundsDue":`...), int64(books.Owed), 10)
	}
	if books.Next != "" {
		b = appendString(append(b, `,"refundDueNext":`...), books.Next)
	}
	return b
}

// appendID appends the text form of a claim's name.
func appendID(b []byte, id executor.ClaimID) []byte {
	if id.Unit != 0 {
		return append(b, id.String()...)
	}
	b = strconv.AppendInt(b, int64(id.Shard), 10)
	b = strconv.AppendUint(append(b, '-'), id.Slot, 10)
	return strconv.AppendInt(append(b, '-'), int64(id.Index), 10)
}

// appendAmounts appends what each of the units is worth, in their order, and in
// which currency.
func appendAmounts(b []byte, units []int64, packets *spec.Packets) []byte {
	b = append(b, `,"amounts":[`...)
	for i, unit := range units {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), packets.Text(unit)...), '"')
	}
	return appendString(append(b, `],"currency":`...), packets.Currency)
}

// appendPayloads appends what each of the units is, in their order.
func appendPayloads(b []byte, payloads []ledger.Payload) []byte {
	b = append(b, `,"payloads":[`...)
	for i, p := range payloads {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		for j, name := range p.Columns {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendString(append(appendString(b, name), ':'), p.Values[j])
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendClaims appends a JSON array, never null.
func appendClaims(b []byte, sale string, claims []executor.Claim) []byte {
	b = append(b, '[')
	for i := range claims {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendClaim(b, claims[i].State, sale, &claims[i])
	}
	return append(b, ']')
}

// appendTime appends a time in UTC, whatever zone it came with.
func appendTime(b []byte, t time.Time) []byte {
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // strings never fail
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
