package rehearse

import "fmt"

// worth checks and adds up the amounts of a new claim of a red packet.
func (j *judge) worth(r *record) {
	p := j.c.RedPacket
	if p == nil {
		return
	}
	if len(r.Amounts) != len(r.Units) || r.Currency != p.Currency {
		j.violated("%s was told that claim %s with units %v is worth %q %s", r.key, r.ID, r.Units, r.Amounts, r.Currency)
		return
	}
	for i, text := range r.Amounts {
		minor, ok := p.Parse(text)
		if !ok || minor < p.Min {
			j.violated("%s was told that unit %d is worth %q, and the least is %s", r.key, r.Units[i], text, p.Format(p.Min))
		}
		j.money += minor
	}
}

// worth formats the amounts reported for a claim, or returns "".
func worth(r *record) string {
	if len(r.Amounts) == 0 {
		return ""
	}
	return fmt.Sprintf(" worth %s", r.Amounts)
}
