package planview

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"salectl/planner"
	"salectl/spec"
)

// noticed describes what buyers notice of a plan, in Markdown. Each line is a sentence or two.
func noticed(plan *planner.Plan) []string {
	var lines []string
	for _, a := range plan.Actions {
		if !strings.HasPrefix(a.Address, "sale/") {
			continue
		}
		switch a.Action {
		case planner.Create:
			lines = newlyNoticed(a.After)
		case planner.Update:
			lines = changeNoticed(a.Before, a.After)
		case planner.Delete:
			lines = endNoticed(a.Before)
		}
		if len(lines) == 0 {
			return []string{"Nothing."}
		}
		return lines
	}
	if plan.Kind == planner.KindDestroy {
		return []string{"Nothing: the sale has ended, and what it has left behind is removed."}
	}
	return []string{fmt.Sprintf("What generation %d has declared, where it is not in force yet.", plan.Generation)}
}

// declared returns the declaration in attributes; a saved plan may have none.
func declared(a *planner.Attributes) spec.Sale {
	if a.Sale == nil {
		return spec.Sale{}
	}
	return *a.Sale
}

// newlyNoticed is noticed for a new sale.
func newlyNoticed(after *planner.Attributes) (lines []string) {
	sale, until := declared(after), ""
	if !sale.ClosesAt.IsZero() {
		until = ", until " + mdCode(planner.TimeText(sale.ClosesAt))
	}
	switch {
	case after.Phase != "open":
		lines = append(lines, fmt.Sprintf("The sale begins %s: no claim is accepted until it is opened.", mdPhase(after.Phase)))
	case !sale.OpensAt.IsZero():
		lines = append(lines, fmt.Sprintf("Claims are accepted from %s on%s.", mdCode(planner.TimeText(sale.OpensAt)), until))
	default:
		lines = append(lines, fmt.Sprintf("Claims are accepted as soon as the sale is served%s.", until))
	}
	lines = append(lines, fmt.Sprintf("There %s; a user may have %s.", areUnits(sale.Stock), spec.Grouped(sale.PerUserLimit)))
	if sale.Draw != nil {
		lines = append(lines, "A claim is an entry of a draw, and gets a unit if it is drawn.")
	}
	if sale.Payment != nil {
		lines = append(lines, heldFor(sale.Payment))
	}
	if after.RuleSet != "" {
		lines = append(lines, "Rules say who may claim.")
	}
	return lines
}

// mdPhase formats a phase in a sentence. A saved plan may have any text as its phase.
func mdPhase(phase string) string {
	if phase == "" || strings.Trim(phase, "abcdefghijklmnopqrstuvwxyz") != "" {
		return mdCode(phase)
	}
	return phase
}

func areUnits(n int64) string {
	if n == 1 {
		return "is 1 unit"
	}
	return "are " + spec.Count(n, "unit")
}

func heldFor(p *spec.Payment) string {
	return fmt.Sprintf("A claim is held for %s, to be paid.", mdCode(spec.FormatTerm(time.Duration(p.HoldFor))))
}

// changeNoticed is noticed for a live sale.
func changeNoticed(from, to *planner.Attributes) (lines []string) {
	before, after := declared(from), declared(to)
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if from.Phase != to.Phase {
		switch to.Phase {
		case "open":
			say("Claims are accepted again: the sale was %s.", mdPhase(from.Phase))
		case "paused":
			say("Every claim is refused, since the sale is paused; buyers keep what they have.")
		case "closed":
			say("Every claim is refused from then on, since the sale is closed for good; buyers keep what they have.")
		}
	}
	switch more := after.Stock - before.Stock; {
	case more > 0:
		say("The sale has %s.", spec.Count(more, "more unit"))
	case more < 0:
		say("The sale has %s: units that nobody has are withdrawn.", spec.Count(-more, "fewer unit"))
	}
	switch limit := mdCode(spec.Grouped(after.PerUserLimit)); {
	case after.PerUserLimit > before.PerUserLimit:
		say("A user may have %s instead of %s.", limit, mdCode(spec.Grouped(before.PerUserLimit)))
	case after.PerUserLimit < before.PerUserLimit:
		say("A user may have %s instead of %s; who has more keeps it.", limit, mdCode(spec.Grouped(before.PerUserLimit)))
	}
	if before.Partial != after.Partial {
		if after.Partial {
			say("Who asks for more units than there are gets those that there are.")
		} else {
			say("Who asks for more units than there are gets none.")
		}
	}
	hour := func(what, before, after, without string) {
		switch {
		case before == after:
		case after == "":
			say("The sale %s, and no longer %s.", without, mdCode(before))
		case before == "":
			say("The sale %s %s.", what, mdCode(after))
		default:
			say("The sale %s %s instead of %s.", what, mdCode(after), mdCode(before))
		}
	}
	hour("opens at", planner.TimeText(before.OpensAt), planner.TimeText(after.OpensAt), "needs no hour to open")
	hour("closes at", planner.TimeText(before.ClosesAt), planner.TimeText(after.ClosesAt), "closes at no hour")
	switch was, is := before.Payment, after.Payment; {
	case was == nil && is != nil:
		say("Later claims are no longer sold at once. %s", heldFor(is))
	case was != nil && is == nil:
		say("Later claims are sold at once; those that are held still have to be paid.")
	case was != nil && holdTerms(*was) != holdTerms(*is):
		say("Later claims are held on other terms; those that are held keep theirs.")
	}
	if was, is := before.Payment, after.Payment; was != nil && is != nil && was.UnpaidPerUser != is.UnpaidPerUser {
		say("A user with %s cancelled or expired may claim no more.", spec.Count(is.UnpaidPerUser, "claim"))
	}
	if from.RuleSet != to.RuleSet {
		say("Later claims are judged by other rules; who has a claim keeps it.")
	}
	if !reflect.DeepEqual(before.Queue, after.Queue) {
		say("Who comes first is decided otherwise.")
	}
	return lines
}

// holdTerms returns a payment with the options of its holds alone.
func holdTerms(p spec.Payment) spec.Payment {
	p.UnpaidPerUser, p.Check, p.Webhook = 0, nil, nil
	return p
}

// endNoticed is noticed for a destroy.
func endNoticed(sale *planner.Attributes) (lines []string) {
	if sale == nil || sale.Ends == nil {
		return []string{"Nothing: the sale has ended already."}
	}
	lines = append(lines, "The sale ends: every claim is refused from then on, and no claim is settled or looked up any more.")
	if sale.Ends.Held > 0 {
		lines = append(lines, "Payments for claims that are held now still buy them, while destroy waits; with --cancel-holds they buy nothing and must be paid back.")
	}
	return lines
}
