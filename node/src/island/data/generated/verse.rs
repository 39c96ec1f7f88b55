//! Songs, poems and the tale that grows with every line.

use super::memory::Slot;
use super::writer::Writer;

impl Writer<'_> {
    /// Makes up the song of the document, which its scenes repeat word for word.
    pub(super) fn song(&mut self) {
        self.rhyme();
        self.bind(Slot::SongOne, "line");
        self.bind(Slot::SongTwo, "answer-line");
    }

    /// Verses of rhymed couplets with the song as their refrain.
    pub(super) fn poem(&mut self) {
        self.title();
        for _ in 0..self.rng.range(2, 4) {
            for _ in 0..self.rng.range(1, 3) {
                self.rhyme();
                self.say("line");
                self.push("\n");
                self.say("answer-line");
                self.push("\n");
            }
            for line in [Slot::SongOne, Slot::SongTwo] {
                self.push("  ");
                self.recall(line);
                self.push("\n");
            }
            self.push("\n");
        }
        self.say("poem-end");
        self.line_end();
    }

    /// "This is the fox that saw the boat that stood by the mill."
    pub(super) fn cumulative_tale(&mut self) {
        self.title();
        let count = usize::try_from(self.rng.range(4, 7)).expect("a small number");
        let things = self.draw_different("actor", count);
        let links: Vec<String> = (0..count).map(|_| self.draw("link")).collect();
        self.say("tale-open");
        for top in 0..count {
            self.push("This is the ");
            for index in (0..=top).rev() {
                self.push(&things[index]);
                if index > 0 {
                    self.push(" that ");
                    self.push(&links[index]);
                    self.push(" the ");
                }
            }
            self.push(" that ");
            self.recall(Slot::First);
            self.push(" ");
            self.push(&links[0]);
            self.push(".\n");
        }
        self.say("home-again");
        self.line_end();
    }

    fn rhyme(&mut self) {
        let family = *self.rng.pick(&RHYMES).expect("there are rhymes");
        let mut words: Vec<&str> = family.split(',').collect();
        self.rng.shuffle(&mut words);
        for (slot, word) in [Slot::RhymeTwo, Slot::RhymeThree].into_iter().zip(words) {
            self.memory.write(slot, word);
        }
        self.bind(Slot::RhymeOne, "thing");
    }
}

/// Nouns that rhyme, one family in a line.
const RHYMES: [&str; 20] = [
    "tree,sea,bee,key,knee,flea",
    "hill,mill,sill,quill,till,drill",
    "boat,coat,goat,note,throat,moat",
    "rain,lane,grain,chain,plain,crane",
    "bell,well,shell,spell,dell,smell",
    "king,ring,spring,string,wing,thing",
    "moon,spoon,tune,dune,noon,loon",
    "hat,cat,mat,bat,rat,gnat",
    "bread,bed,thread,head,shed,sled",
    "door,floor,shore,store,oar,boar",
    "day,bay,hay,clay,tray,way",
    "night,light,kite,knight,sight,bite",
    "cake,lake,rake,snake,stake,drake",
    "fox,box,rocks,clocks,socks,ox",
    "log,dog,frog,fog,bog,hog",
    "pear,chair,bear,hare,stair,mare",
    "stone,bone,throne,cone,loan,drone",
    "crown,town,gown,clown,down,frown",
    "sand,hand,land,band,strand,stand",
    "snow,crow,bow,hoe,toe,row",
];
