package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// RedPacket declares that each unit of a sale is a packet of money. Amounts are in minor units
// of the currency: 100 is 1.00 with two decimals.
type RedPacket struct {
	// Total is of all packets together, 1 to MaxTotal; at least Min times the stock.
	Total    int64  `yaml:"total" json:"total" form:"amount" example:"100.00" doc:"Sum of all packets, an exact decimal in quotes; at least min times stock."`
	Currency string `yaml:"currency" json:"currency" form:"currency" example:"CNY" doc:"ISO 4217 code, which also sets the number of decimals."`
	// Scale is the number of decimals of the currency. It is stored, so that a later program
	// deals the same amounts.
	Scale int `yaml:"-" json:"scale"`
	// Split is SplitFixed only if the total divides by the stock.
	Split Split `yaml:"split,omitempty" json:"split" words:"random even fixed" default:"random" doc:"random: up to twice the mean of the rest. even: equal, the first ones a cent more if needed. fixed: exactly equal."`
	// Min is of one packet, from 1.
	Min int64 `yaml:"min,omitempty" json:"min" form:"amount" example:"0.01" doc:"Least amount of a packet, an exact decimal in quotes. Default: the smallest unit of the currency."`
}

// Split is the way to deal the total to the packets; see Deal.
type Split string

// Values of Split.
const (
	SplitRandom Split = "random" // random, with the same mean for each packet
	SplitEven   Split = "even"   // as equal as possible
	SplitFixed  Split = "fixed"  // all equal
)

// MaxTotal is the maximum total of a red packet in minor units. The sum of ninety fits into an
// int64.
const MaxTotal = 100_000_000_000_000_000

// Format formats minor units as a decimal: 37 is 0.37 with two decimals. It is exact.
func (r RedPacket) Format(minor int64) string { return formatAmount(minor, r.Scale) }

// Parse parses the output of Format; false for other text.
func (r RedPacket) Parse(text string) (minor int64, ok bool) {
	minor, ok = minorUnits(text, r.Scale)
	return minor, ok && r.Format(minor) == text
}

func formatAmount(minor int64, scale int) string {
	sign, digits := "", strconv.FormatInt(minor, 10)
	if minor < 0 {
		sign, digits = "-", digits[1:]
	}
	if scale == 0 {
		return sign + digits
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - scale
	return sign + digits[:point] + "." + digits[point:]
}

// amountForm is the only accepted form of an amount.
const amountForm = `^(0|[1-9][0-9]*)([.][0-9]+)?$`

var amountRE = regexp.MustCompile(amountForm)

var otherAmounts = []wrongForm{
	{regexp.MustCompile(`^-`), fault{"is negative", "Write an amount above zero."}},
	{regexp.MustCompile(`^\+`), fault{"has a plus sign", "Write it without the sign."}},
	{regexp.MustCompile(`^0[xXoObB]`), fault{"is no decimal number", "Write plain decimal digits."}},
	{regexp.MustCompile(`^[0-9.,_]+[eE][-+]?[0-9]+$`), fault{"has an exponent", `Write the amount out, such as "1000.00" for 1e3.`}},
	{regexp.MustCompile(`^[0-9][0-9._]*_[0-9._]*$`), fault{"has an underscore", "Write the digits without it."}},
	{regexp.MustCompile(`^[0-9][0-9.,]*,[0-9.,]*$`), fault{"has a comma", "Write a point before the decimals, and nothing between the thousands."}},
	{regexp.MustCompile(`^0[0-9]+([.][0-9]*)?$`), fault{"begins with a needless zero", "Write it without that zero."}},
	{regexp.MustCompile(`^[.][0-9]+$`), fault{"begins with a point", "Write a zero before the point."}},
	{regexp.MustCompile(`^[0-9]+[.]$`), fault{"ends with a point", "Write decimals behind the point, or leave it out."}},
}

// checkAmount returns the fault of a text that is no amount.
func checkAmount(text string) *fault {
	if amountRE.MatchString(text) {
		return nil
	}
	return wrong(text, otherAmounts, fault{"is no amount", `Write digits and a point before the decimals, such as "100.00"; the currency has a key of its own.`})
}

// minorUnits converts text accepted by checkAmount to minor units. It returns false for more
// decimals than scale, or an overflow of int64. For other text the result is undefined.
func minorUnits(text string, scale int) (int64, bool) {
	whole, decimals, _ := strings.Cut(text, ".")
	if len(decimals) > scale {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+decimals+strings.Repeat("0", scale-len(decimals)), 10, 64)
	return n, err == nil
}

// readAmount parses an amount of a currency in minor units.
func readAmount(text, currency string, scale int) (int64, *fault) {
	if f := checkAmount(text); f != nil {
		return 0, f
	}
	if _, decimals, _ := strings.Cut(text, "."); len(decimals) > scale {
		remedy := fmt.Sprintf("Write at most %d decimals.", scale)
		if scale == 0 {
			remedy = "Write it without point and decimals."
		}
		return 0, &fault{fmt.Sprintf("has %d decimals, and %s has %d", len(decimals), currency, scale), remedy}
	}
	switch n, ok := minorUnits(text, scale); {
	case !ok || n > MaxTotal:
		return 0, &fault{fmt.Sprintf("is above %s, the maximum", formatAmount(MaxTotal, scale)), "Write a smaller amount."}
	case n == 0:
		return 0, &fault{"is zero", "Write an amount above zero."}
	default:
		return n, nil
	}
}

// redPacket decodes the amounts of the red packet of a sale with a stock; 0: the stock is
// unknown.
func (d *decoder) redPacket(r *RedPacket, stock int64) {
	o := d.objects["spec.units.redPacket"]
	r.Min = 1
	if v, ok := d.value(o, "currency"); ok {
		if text, ok := d.text(v, "CNY"); ok {
			if scale, f := readCurrency(text); d.valid(v, f) {
				r.Currency, r.Scale = text, scale
			}
		}
	}
	r.Total = d.amount(o, "total", r)
	if o.keys["min"] != nil {
		r.Min = d.amount(o, "min", r)
	}
	if stock > 0 && r.Split != "" && r.Total > 0 && r.Min > 0 {
		d.dealable(o, r, stock)
	}
}

// amount decodes an amount of r's currency; 0 if it is invalid. If the currency is unknown, it
// does not check the number of decimals, and returns 0.
func (d *decoder) amount(o object, key string, r *RedPacket) int64 {
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "an amount in quotes", fmt.Sprintf("Write an amount in quotes, such as %s: \"100.00\".", key)) {
		return 0
	}
	text := v.node.Value
	f := checkAmount(text)
	var minor int64
	if f == nil && r.Currency != "" {
		minor, f = readAmount(text, r.Currency, r.Scale)
	}
	if f == nil && v.node.Style == 0 && d.outside[v.node] == nil {
		// Many readers convert it to a binary fraction, and 0.10 has no exact one.
		f = &fault{"is a number to YAML, which may round it", fmt.Sprintf("Quote it: %s: %q.", key, text)}
	}
	if !d.valid(v, f) {
		return 0
	}
	return minor
}

// dealable reports a total that split and min do not permit for that many packets.
func (d *decoder) dealable(o object, r *RedPacket, packets int64) {
	at, path := o.values["total"], join(o.path, "total")
	// The quotient is rounded down, and min is whole: nothing can overflow.
	switch each, rest := r.Total/packets, r.Total%packets; {
	case each < r.Min:
		lower := "lower min or the stock"
		if r.Min == 1 {
			lower = "lower the stock"
		}
		remedy := strings.ToUpper(lower[:1]) + lower[1:] + "."
		if r.Min <= MaxTotal/packets {
			remedy = fmt.Sprintf("Write at least %q, or %s.", r.Format(r.Min*packets), lower)
		}
		d.refuse(at, remedy, "%s is %s, too little for %d packets of at least %s", path, r.Format(r.Total), packets, r.Format(r.Min))
	case r.Split == SplitFixed && rest > 0:
		below, above := r.Total-rest, r.Total-rest+packets
		totals := fmt.Sprintf("%q", r.Format(below))
		if above <= MaxTotal {
			totals += fmt.Sprintf(" or %q", r.Format(above))
		}
		d.refuse(at, fmt.Sprintf("Write %s, or split: even.", totals),
			"%s is %s, which %d packets cannot share equally", path, r.Format(r.Total), packets)
	}
}

// MaxDecimals bounds the decimals of a currency that does not come from a document: each is
// written. No currency has more than four.
const MaxDecimals = 18

// Check returns an error if Deal cannot deal to that many packets, 1 or more. Results of Load
// and FromJSON pass.
func (r RedPacket) Check(packets int64) error {
	switch {
	case r.Currency == "" || r.Scale < 0 || r.Scale > MaxDecimals:
		return fmt.Errorf("the red packet has no currency, or %d decimals", r.Scale)
	case r.Min < 1 || r.Total/packets < r.Min:
		return fmt.Errorf("a total of %d minor units is too little for %d packets of at least %d", r.Total, packets, r.Min)
	case r.Split == SplitFixed && r.Total%packets > 0:
		return fmt.Errorf("a total of %d minor units cannot be shared equally by %d packets", r.Total, packets)
	case r.Split != SplitRandom && r.Split != SplitEven && r.Split != SplitFixed:
		return fmt.Errorf("the red packet's split %q is not known to this program: use a newer one", r.Split)
	}
	return nil
}
