//! Numbers in words.

/// `number` in words, for numbers below a thousand.
pub(super) fn words(number: u64) -> String {
    let index = |number: u64| usize::try_from(number).expect("below twenty");
    match number {
        0..20 => SMALL[index(number)].to_owned(),
        20..100 => {
            let tens = TENS[index(number / 10 - 2)];
            match number % 10 {
                0 => tens.to_owned(),
                ones => format!("{tens}-{}", SMALL[index(ones)]),
            }
        }
        _ => {
            let hundreds = format!("{} hundred", words(number / 100));
            match number % 100 {
                0 => hundreds,
                rest => format!("{hundreds} and {}", words(rest)),
            }
        }
    }
}

const SMALL: [&str; 20] = [
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];

const TENS: [&str; 8] =
    ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(words(7), "seven");
        assert_eq!(words(40), "forty");
        assert_eq!(words(99), "ninety-nine");
        assert_eq!(words(144), "one hundred and forty-four");
        assert_eq!(words(300), "three hundred");
    }
}
