package spec

import (
	"fmt"
	"slices"
	"strings"
)

// currencies are the codes of ISO 4217 as of January 2026, by their decimals, without those
// that have no decimals: metals, units of account, test codes and the code for no currency.
// golang.org/x/text/currency has an old list, with customary decimals instead of those of ISO.
var currencies = map[int][]string{
	0: strings.Fields("BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
	2: strings.Fields(`AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD
		CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP
		GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL
		MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN
		QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD
		TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG`),
	3: strings.Fields("BHD IQD JOD KWD LYD OMR TND"),
	4: strings.Fields("CLF UYW"),
}

// readCurrency returns the decimals of a currency.
func readCurrency(text string) (scale int, f *fault) {
	code := strings.ToUpper(text)
	for scale, codes := range currencies {
		switch {
		case !slices.Contains(codes, code):
		case code != text:
			return 0, &fault{"is not in capitals", fmt.Sprintf("Write %s.", code)}
		default:
			return scale, nil
		}
	}
	const write = "Write a code of ISO 4217 in capitals, such as CNY or EUR."
	if code == "XXX" {
		return 0, &fault{"is the code for no currency", write}
	}
	return 0, &fault{"is no currency", write}
}
